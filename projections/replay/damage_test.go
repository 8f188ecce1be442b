package replay_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
)

// damaging changes the database in a way that no program does, and returns the
// differences that must be reported.
type damaging struct {
	name  string
	log   bool // of the log: rebuild refuses
	among bool // differences that follow from it may be reported too
	do    func(b *bench) []string
}

func damages() []damaging {
	return []damaging{
		{name: "an amount changed", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM invoice WHERE workspace_id = 'ws-1' ORDER BY id OFFSET 3 LIMIT 1`)
			gross := b.text(`SELECT (base || '}')::json ->> 'gross_amount' FROM invoice WHERE workspace_id = 'ws-1' AND id = $1`, id)
			b.damage(`UPDATE invoice SET base = replace(base, '"gross_amount":"' || $2 || '"', '"gross_amount":"9999999.99"') WHERE workspace_id = 'ws-1' AND id = $1`, id, gross)
			return []string{fmt.Sprintf(`ws-1: invoices %s, gross_amount: stored "9999999.99", folded %q`, id, gross)}
		}},
		{name: "a byte changed that is no field's", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM time_entry WHERE workspace_id = 'ws-2' ORDER BY id OFFSET 5 LIMIT 1`)
			b.damage(`UPDATE time_entry SET base = '{ ' || substr(base, 2) WHERE workspace_id = 'ws-2' AND id = $1`, id)
			return []string{fmt.Sprintf(`ws-2: time-entries %s, base: stored from byte 2: %s, folded from byte 2: %s`, id,
				b.text(`SELECT substr(base, 1, 41) FROM time_entry WHERE workspace_id = 'ws-2' AND id = $1`, id),
				b.text(`SELECT '{' || substr(base, 3, 40) FROM time_entry WHERE workspace_id = 'ws-2' AND id = $1`, id))}
		}},
		{name: "a filter column changed", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM time_entry WHERE workspace_id = 'ws-1' AND invoice_id IS NULL ORDER BY id LIMIT 1`)
			b.damage(`UPDATE time_entry SET invoice_id = '' WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf(`ws-1: time-entries %s, invoice_id: stored , folded nothing`, id)}
		}},
		{name: "a place in lists changed", do: func(b *bench) []string {
			position := b.text(`SELECT position::text AS p FROM client WHERE workspace_id = 'ws-1' ORDER BY position LIMIT 1`)
			id := b.text(`SELECT id FROM client WHERE workspace_id = 'ws-1' ORDER BY position LIMIT 1`)
			b.damage(`UPDATE client SET position = position + 1 WHERE workspace_id = 'ws-1' AND id = $1`, id)
			var n int
			_, _ = fmt.Sscan(position, &n)
			return []string{fmt.Sprintf(`ws-1: clients %s, position: stored %d, folded %d`, id, n+1, n)}
		}},
		{name: "a row deleted", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM payment WHERE workspace_id = 'ws-2' ORDER BY id LIMIT 1`)
			row := b.text(`DELETE FROM payment WHERE workspace_id = 'ws-2' AND id = $1 RETURNING base || '}'`, id)
			return []string{fmt.Sprintf(`ws-2: payments %s, row: stored nothing, folded %s`, id, row)}
		}},
		{name: "a row that left forgotten", do: func(b *bench) []string {
			id := b.text(`SELECT id FROM removed_time_entry WHERE workspace_id = 'ws-1' ORDER BY id LIMIT 1`)
			row := b.text(`DELETE FROM removed_time_entry WHERE workspace_id = 'ws-1' AND id = $1 RETURNING base || '}'`, id)
			return []string{fmt.Sprintf(`ws-1: removed time-entries %s, row: stored nothing, folded %s`, id, row)}
		}},
		{name: "rows added", do: func(b *bench) []string {
			b.damage(`INSERT INTO contractor (workspace_id, id, position, base) VALUES ('ws-1', 'zzz', 5, '{"id":"zzz"')`)
			b.damage(`INSERT INTO credit_move (workspace_id, client_id, id, position, base) VALUES ('ws-1', '-', '_', 5, '{"id":"_"')`)
			b.damage(`INSERT INTO closed_period (workspace_id, period, client_id, position) VALUES ('ws-1', '1999-01', '', 7)`)
			b.damage(`INSERT INTO anomaly (workspace_id, position, reason, event_id) VALUES ('ws-1', 1, 'repeat', 'evt')`)
			return []string{
				`ws-1: contractors zzz, row: stored {"id":"zzz"}, folded nothing`,
				`ws-1: credit -/_, row: stored {"id":"_"}, folded nothing`,
				`ws-1: closed-periods 1999-01, row: stored position 7, folded nothing`,
				`ws-1: anomalies 1/repeat, row: stored event_id evt, folded nothing`,
			}
		}},
		{name: "a checkpoint moved back", do: func(b *bench) []string {
			b.damage(`UPDATE log_checkpoint SET position = position - 30 WHERE workspace_id = 'ws-1'`)
			return []string{fmt.Sprintf("ws-1: checkpoint read_models, position: stored 870, folded %s", b.newestEffect("ws-1"))}
		}},
		{name: "a checkpoint moved ahead", among: true, do: func(b *bench) []string {
			b.Append(projectionstest.Generate(b.t, "ws-1", 1, 940)[900:])
			newest := b.newestEffect("ws-1")
			b.damage(`UPDATE log_checkpoint SET position = 940 WHERE workspace_id = 'ws-1'`)
			return []string{fmt.Sprintf("ws-1: checkpoint read_models, position: stored 940, folded %s", newest)}
		}},
		{name: "a checkpoint above the log", do: func(b *bench) []string {
			b.damage(`UPDATE log_checkpoint SET position = 1000 WHERE workspace_id = 'ws-1'`)
			return []string{"ws-1: checkpoint read_models, position: stored 1000, folded 900"}
		}},
		{name: "a payload edited", log: true, among: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND type = 'invoice.recorded' ORDER BY position LIMIT 1`)
			b.damage(`UPDATE event_log SET data = regexp_replace(data::text, '"gross_amount":"[0-9.]+"', '"gross_amount":"1.00"')::json WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id))}
		}},
		{name: "the newest payload edited", log: true, among: true, do: func(b *bench) []string {
			b.damage(`UPDATE event_log SET type = 'nothing.known' WHERE workspace_id = 'ws-1' AND position = 900`)
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`)
			return []string{fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id))}
		}},
		{name: "a payload out of its form", log: true, do: func(b *bench) []string {
			// It has no detached value, because verify shows data without the commitment to one.
			id := b.text(`SELECT id FROM event_log e WHERE workspace_id = 'ws-1' AND NOT EXISTS (
				SELECT FROM log_detached d WHERE d.workspace_id = 'ws-1' AND d.position = e.position) ORDER BY position LIMIT 1 OFFSET 5`)
			data := b.text(`SELECT data::text FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)
			b.damage(`UPDATE event_log SET data = replace(data::text, '{', '{ ')::json WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{
				fmt.Sprintf("ws-1: log %s, content: stored %s, folded %s", id, b.hash("ws-1", id), b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)),
				fmt.Sprintf("ws-1: log %s, data: stored %s, folded %s", id, strings.ReplaceAll(data, "{", "{ "), data),
			}
		}},
		{name: "a detached value edited", log: true, among: true, do: func(b *bench) []string {
			return b.damageDetached(`value = '{"name":"Mallory"}'`)
		}},
		{name: "a salt edited", log: true, do: func(b *bench) []string { return b.damageDetached(`salt = sha256('x')`) }},
		{name: "a detached value gone without an entry that forgets", log: true, among: true, do: func(b *bench) []string {
			id, commitment := b.detached()
			b.damage(`DELETE FROM log_detached WHERE workspace_id = 'ws-1' AND position = (SELECT position FROM event_log WHERE workspace_id = 'ws-1' AND id = $1)`, id)
			return []string{fmt.Sprintf("ws-1: log %s, detached value: stored nothing, folded the value with the commitment %s", id, commitment)}
		}},
		{name: "a detached value of somebody else", log: true, do: func(b *bench) []string {
			id, _ := b.detached()
			b.damage(`UPDATE log_detached SET subject = 'client:else' WHERE workspace_id = 'ws-1' AND position = (SELECT position FROM event_log WHERE workspace_id = 'ws-1' AND id = $1)`, id)
			return []string{fmt.Sprintf("ws-1: log %s, subject: stored client:else, folded %s", id, b.text(`SELECT log_subject(type, data) FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id))}
		}},
		{name: "a deletion that no entry began", log: true, among: true, do: func(b *bench) []string {
			id, _ := b.detached()
			b.damage(`INSERT INTO log_forgotten (workspace_id, subject, position, reached, ended_at)
				SELECT 'ws-1', log_subject(type, data), 900, 900, now() FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{
				fmt.Sprintf("ws-1: log position 900, deletion: stored %s, folded nothing", b.text(`SELECT log_subject(type, data) FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)),
				fmt.Sprintf("ws-1: log %s, detached value: stored a value, folded none: the entry at position 900 forgets it", id),
			}
		}},
		{name: "a chain value edited", log: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND position = 400`)
			chain := b.text(`SELECT encode(chain, 'hex') FROM event_log WHERE workspace_id = 'ws-1' AND position = 400`)
			b.damage(`UPDATE event_log SET chain = sha256('x') WHERE workspace_id = 'ws-1' AND position = 400`)
			return []string{fmt.Sprintf("ws-1: log %s, chain: stored %s, folded %s", id, b.text(`SELECT encode(sha256('x'), 'hex')`), chain)}
		}},
		{name: "a public form edited", log: true, do: func(b *bench) []string {
			id := b.text(`SELECT id FROM event_log WHERE workspace_id = 'ws-1' AND public_event IS NOT NULL ORDER BY position LIMIT 1`)
			public := b.text(`SELECT public_event FROM event_log WHERE workspace_id = 'ws-1' AND id = $1`, id)
			b.damage(`UPDATE event_log SET public_event = NULL WHERE workspace_id = 'ws-1' AND id = $1`, id)
			return []string{fmt.Sprintf("ws-1: log %s, public_event: stored nothing, folded %s", id, public)}
		}},
		{name: "an entry removed", log: true, among: true, do: func(b *bench) []string {
			b.damage(`DELETE FROM event_log WHERE workspace_id = 'ws-1' AND position = 250`)
			return []string{"ws-1: log position 250, row: stored nothing, folded an entry"}
		}},
		{name: "the newest entries removed", log: true, among: true, do: func(b *bench) []string {
			b.damage(`DELETE FROM event_log WHERE workspace_id = 'ws-1' AND position > 898`)
			return []string{
				"ws-1: log position 899, row: stored nothing, folded an entry",
				"ws-1: log position 900, row: stored nothing, folded an entry",
			}
		}},
		{name: "the head moved", log: true, do: func(b *bench) []string {
			chain := b.text(`SELECT encode(chain, 'hex') FROM log_head WHERE workspace_id = 'ws-1'`)
			b.damage(`UPDATE log_head SET chain = sha256('x'), created_at = '2001-01-01T00:00:00Z' WHERE workspace_id = 'ws-1'`)
			at := b.text(`SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') FROM event_log WHERE workspace_id = 'ws-1' AND position = 900`)
			return []string{
				fmt.Sprintf("ws-1: log head, chain: stored %s, folded %s", b.text(`SELECT encode(sha256('x'), 'hex')`), chain),
				"ws-1: log head, created_at: stored 2001-01-01T00:00:00.000Z, folded " + at,
			}
		}},
	}
}

// detached is the first entry of a client, with the commitment to its detached value.
func (b *bench) detached() (id, commitment string) {
	const first = ` FROM event_log WHERE workspace_id = 'ws-1' AND type = 'client.recorded' ORDER BY position LIMIT 1`
	return b.text(`SELECT id` + first), b.text(`SELECT left(right(data::text, 45), 43)` + first)
}

// damageDetached changes that value or its salt.
func (b *bench) damageDetached(set string) []string {
	id, commitment := b.detached()
	b.damage(`UPDATE log_detached SET `+set+` WHERE workspace_id = 'ws-1' AND position = (SELECT position FROM event_log WHERE workspace_id = 'ws-1' AND id = $1)`, id)
	now := b.text(`SELECT left(right(log_stored('{}', d.salt, 'ws-1', e.id, d.value), 45), 43) FROM event_log e JOIN log_detached d USING (workspace_id, position) WHERE e.workspace_id = 'ws-1' AND e.id = $1`, id)
	return []string{fmt.Sprintf("ws-1: log %s, detached value: stored a value with the commitment %s, folded the value with the commitment %s", id, now, commitment)}
}

// newestEffect is the position of the newest entry that a row shows.
func (b *bench) newestEffect(workspaceID string) string {
	return b.text(`SELECT greatest((SELECT max(position) FROM invoice WHERE workspace_id = $1), (SELECT max(position) FROM charge WHERE workspace_id = $1),
		(SELECT max(position) FROM time_entry WHERE workspace_id = $1), (SELECT max(position) FROM payment WHERE workspace_id = $1),
		(SELECT max(position) FROM client WHERE workspace_id = $1), (SELECT max(position) FROM contractor WHERE workspace_id = $1),
		(SELECT max(position) FROM client_credit WHERE workspace_id = $1), (SELECT max(position) FROM anomaly WHERE workspace_id = $1))::text`, workspaceID)
}

// hash is the chain value that follows from an entry as it is stored now.
func (b *bench) hash(workspaceID, id string) string {
	b.t.Helper()
	var (
		sum    [32]byte
		before = domain.Genesis(workspaceID)
	)
	err := b.Log.Walk(context.Background(), workspaceID, 0, func(e *domain.Entry) error {
		if e.ID == id {
			sum = e.ChainAfter(before)
		}
		before = e.Chain
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}
