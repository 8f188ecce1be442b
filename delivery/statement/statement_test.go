//go:build full

package statement_test

import (
	"cmp"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/statement"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const (
	workspace = "acme"
	retention = 30 * 24 * time.Hour
	name      = "api.example.com/webhook-statements"
)

// bench is a database with a workspace, a webhook and what makes statements about it.
type bench struct {
	t       *testing.T
	pool    *pgxpool.Pool
	clock   *testkit.Clock
	log     *eventlog.Log
	store   *delivery.Store
	maker   *statement.Maker
	keys    *signingkey.Keys
	webhook *delivery.WithSecret
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func setup(t *testing.T, events ...string) *bench {
	t.Helper()
	b := &bench{t: t, pool: testkit.Pool(t), clock: testkit.NewClock(at("2026-11-20T10:00:00Z"))}
	testkit.AnyClock(t, b.pool)
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now}))(t)
	ring := testkit.Must(keyring.New("0123456789abcdef"))(t)
	b.store = testkit.Must(delivery.NewStore(delivery.StoreConfig{Pool: b.pool, Log: b.log, Keyring: ring, Clock: b.clock.Now}))(t)
	b.keys = testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(cryptorand.Reader))(t)))(t)
	b.maker = testkit.Must(statement.New(statement.Config{Pool: b.pool, Keys: b.keys, BaseURL: "https://api.example.com", Clock: b.clock.Now, Retention: retention}))(t)
	b.exec(`SELECT workspace_create($1, $1, $2)`, workspace, b.clock.Now())
	b.webhook = testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com/hook", Events: events}))(t)
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// event is an entry of the log and what became of it, as the test decided.
type event struct {
	at       time.Time
	typ      string
	position int64
	id       string
	state    string // of its delivery; empty: it has none
	attempts string // of its delivery, as JSON; empty: as if there were none
	sequence int64  // 0: none
	underWay bool
}

// public tells whether the statement is about the entry.
func (e *event) public() bool { return e.typ == "invoice.reversed" || e.typ == "charge.deleted" }

// append appends entries at their times and makes them visible.
func (b *bench) append(list []event) {
	b.t.Helper()
	data := map[string]string{
		"invoice.reversed": `{"invoice_id":"inv_1"}`, "charge.deleted": `{"charge_id":"ch_1"}`, "client.recorded": `{"client_id":"cl_1","name":"A client"}`,
		"test.ping": `{"webhook_id":"` + b.webhook.ID + `"}`,
	}
	for part := range slices.Chunk(list, 1000) {
		drafts := make([]domain.Draft, len(part))
		for i := range part {
			drafts[i] = testkit.Must(domain.NewDraft(workspace, part[i].typ, []byte(data[part[i].typ])))(b.t)
			drafts[i].CreatedAt = part[i].at
		}
		for i, r := range testkit.Must(b.log.Append(b.t.Context(), drafts...))(b.t) {
			part[i].id, part[i].position = r.ID, r.Position
		}
	}
	b.exec(`UPDATE log_checkpoint c SET position = h.position FROM log_head h
	         WHERE c.workspace_id = $1 AND h.workspace_id = $1 AND c.consumer = 'read_models'`, workspace)
}

// deliver stores a delivery as an attempt leaves it.
func (b *bench) deliver(e *event, at time.Time) {
	b.t.Helper()
	b.exec(`
		INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts, sequence)
		VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce(nullif($9::text, ''), '[]')::jsonb, nullif($8::bigint, 0))`,
		workspace, b.webhook.ID, e.position, at, e.id, e.typ, e.state, e.sequence, e.attempts)
}

// cursor moves the webhook's cursor.
func (b *bench) cursor(position int64) {
	b.t.Helper()
	b.exec(`UPDATE webhook_cursor SET position = $2 WHERE webhook_id = $1`, b.webhook.ID, position)
}

func (b *bench) statement(day string) *statement.Statement {
	b.t.Helper()
	return testkit.Must(b.maker.Make(b.t.Context(), b.webhook.ID, testkit.Must(statement.ParseDay(day))(b.t)))(b.t)
}

// byNumber orders events as a statement does.
func byNumber(x, y event) int {
	if (x.sequence == 0) != (y.sequence == 0) {
		return cmp.Compare(y.sequence, x.sequence)
	}
	return cmp.Or(cmp.Compare(x.sequence, y.sequence), cmp.Compare(x.position, y.position))
}

// count counts the events of a day by hand: how many have which state, and the lines of
// those that are delivered and of those that are not.
func count(list []event, day string, cursor int64) (counts map[string]int64, delivered, undelivered string) {
	counts = map[string]int64{}
	list = slices.Clone(list)
	slices.SortFunc(list, byNumber)
	for i := range list {
		e := &list[i]
		if !e.public() || e.at.UTC().Format("2006-01-02") != day {
			continue
		}
		state := map[string]string{"succeeded": "delivered", "failed": "failed", "cancelled": "cancelled", "pending": "pending"}[e.state]
		switch {
		case state != "":
			counts["sent"]++
		case e.underWay || e.position > cursor:
			state = "waiting"
		default:
			state = "not-sent-other"
		}
		number := "-"
		if e.sequence > 0 {
			number = fmt.Sprint(e.sequence)
			counts["numbered"]++
		}
		counts[state]++
		line := state + " " + number + " " + e.id + "\n"
		if state == "delivered" {
			delivered += line
		} else {
			undelivered += line
		}
	}
	return counts, delivered, undelivered
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// someDays makes entries of three days, also at the very borders between them, and decides
// what became of each up to a position, and of a few after it.
func someDays(r *rand.Rand, n int) []event {
	begin, end := at("2026-11-20T10:00:01Z"), at("2026-11-23T09:00:00Z")
	list := []event{
		{at: at("2026-11-20T23:59:59.999Z")}, {at: at("2026-11-21T00:00:00Z")}, {at: at("2026-11-21T23:59:59.999Z")}, {at: at("2026-11-22T00:00:00Z")},
		{at: at("2026-11-22T00:00:00.001Z")}, {at: at("2026-11-22T01:00:00+01:00")},
	}
	for range n {
		list = append(list, event{at: begin.Add(time.Duration(r.Int64N(int64(end.Sub(begin))))).Truncate(time.Millisecond)})
	}
	slices.SortFunc(list, func(x, y event) int { return x.at.Compare(y.at) })
	for i := range list {
		list[i].typ = []string{"invoice.reversed", "charge.deleted", "invoice.reversed", "client.recorded", "test.ping"}[r.IntN(5)]
	}
	return list
}

// decide makes up deliveries and numbers for entries of the log.
func decide(r *rand.Rand, list []event, cursor int64) {
	states := []string{"succeeded", "succeeded", "succeeded", "failed", "cancelled", "pending", ""}
	var last int64
	var missed []*event
	for i := range list {
		e := &list[i]
		if e.typ == "client.recorded" || e.position > cursor && r.IntN(3) > 0 {
			continue
		}
		e.state = states[r.IntN(len(states))]
		switch {
		case e.state == "":
			e.underWay = e.public() && r.IntN(4) == 0
		case e.typ == "test.ping" || r.IntN(10) == 0: // no number, as from a version before
		case r.IntN(10) == 0:
			missed = append(missed, e) // sent as missed, later
		default:
			last++
			e.sequence = last
		}
	}
	for _, e := range missed {
		last++
		e.sequence = last
	}
}

// TestStatementsAreWhatTheTablesHold: for each of three days, counts, numbers, the named
// events and the sums are those counted by hand, in the signed text as well.
func TestStatementsAreWhatTheTablesHold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			b := setup(t, "all")
			list := someDays(r, 200)
			b.clock.Set(at("2026-11-23T09:00:00Z"))
			b.append(list)
			cursor := list[len(list)*9/10].position
			decide(r, list, cursor)
			underWay := []int64{}
			for i := range list {
				if list[i].state != "" {
					b.deliver(&list[i], list[i].at.Add(time.Duration(r.IntN(7200))*time.Second))
				}
				if list[i].underWay {
					underWay = append(underWay, list[i].position)
				}
			}
			b.cursor(cursor)
			b.exec(`UPDATE webhook_cursor SET numbered_positions = $2, numbered_sequences = $2, expired = 5 WHERE webhook_id = $1`, b.webhook.ID, underWay)
			for _, day := range []string{"2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23"} {
				b.compare(day, list, cursor)
			}
		})
	}
}

// compare compares the statement of a day with what was counted by hand.
func (b *bench) compare(day string, list []event, cursor int64) {
	b.t.Helper()
	s := b.statement(day)
	counts, delivered, undelivered := count(list, day, cursor)
	text := s.Text()
	for _, key := range []string{"numbered", "sent", "delivered", "failed", "cancelled", "pending", "waiting", "not-sent-other", "not-sent-off"} {
		if want := fmt.Sprintf("\n%s %d\n", key, counts[key]); !strings.Contains(text, want) {
			b.t.Errorf("%s: want %q in\n%s", day, want, text)
		}
	}
	first, last := int64(0), int64(0)
	for i := range list {
		if e := &list[i]; e.sequence > 0 && e.public() && e.at.UTC().Format("2006-01-02") == day {
			if first == 0 || e.sequence < first {
				first = e.sequence
			}
			last = max(last, e.sequence)
		}
	}
	n := strings.Count(undelivered, "\n")
	for _, want := range []string{
		"\nday " + day + "\n", fmt.Sprintf("\nsequence %d-%d\n", first, last), "\nnot-sent-history-ever 5\n",
		"\ndelivered-sha256 " + hexSum(delivered) + "\n", "\nundelivered-sha256 " + hexSum(undelivered) + "\n",
		fmt.Sprintf("\nundelivered %d\nlisted %d\n%s", n, n, undelivered), fmt.Sprintf("\nposition %d\n", list[len(list)-1].position),
		"\nmade 2026-11-23T09:00:00.000Z\n", "\nworkspace acme\nwebhook " + b.webhook.ID + "\n", "\nevents all\n",
	} {
		if !strings.Contains(text, want) {
			b.t.Errorf("%s: want %q in\n%s", day, want, text)
		}
	}
	if day == "2026-11-21" && (counts["delivered"] == 0 || counts["failed"] == 0 || counts["cancelled"] == 0 || counts["pending"] == 0) {
		b.t.Errorf("%s: the test has too few cases: %v", day, counts)
	}
	signed := testkit.Must(b.maker.Sign(s))(b.t)
	key := testkit.Must(note.NewVerifier(testkit.Must(b.maker.Verifiers())(b.t)[0]))(b.t)
	opened := testkit.Must(note.Open(signed, note.VerifierList(key)))(b.t)
	parsed, err := statement.Parse(opened.Text)
	if err != nil || parsed.Text() != text || !strings.HasPrefix(text, name+"\nwebhook statement v1\n") {
		b.t.Errorf("%s: the signed text is read as %+v, %v", day, parsed, err)
	}
}
