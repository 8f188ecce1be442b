package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// after wants a check of a restored backup to say something at a level.
func (p *patient) after(name string, level Level, text string) {
	p.t.Helper()
	list := examine(p.t.Context(), p.examination, checksAfterRestore())
	for _, f := range list {
		if f.Check == name && f.Level == level && strings.Contains(f.Text, text) {
			return
		}
	}
	p.t.Errorf("%s does not say %s with %q: %+v", name, level, text, list)
}

func TestAfterRestore(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.after("restored log", Warning, "empty")
	p.after("recovery", OK, "takes appends")
	p.after("restored access", OK, "no key works")
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: p.pool, Clock: time.Now}))(t)
	for _, w := range []string{"acme", "blue"} {
		for _, id := range []string{"a", "b", "c"} {
			d := testkit.Must(domain.NewDraft(w, "invoice.reversed", []byte(`{"invoice_id":"`+id+`"}`)))(t)
			testkit.Must(log.Append(t.Context(), d))(t)
		}
	}
	p.exec(`UPDATE log_checkpoint SET position = 3`)
	p.exec(`INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', 'wh_1', 'https://example.com', now(), '')`)
	p.exec(`INSERT INTO webhook_cursor (workspace_id, webhook_id, position) VALUES ('acme', 'wh_1', 1)`)
	p.after("restored log", Warning, "6 entries in 2 workspaces; the newest 100 of each have the right chain; the newest of all was appended on 2")
	p.after("restored positions", OK, "not ahead")
	p.after("webhooks after the restore", OK, "1 webhook is on: 2 events will be sent")

	for key, revoked := range map[string]*time.Time{"key_1": nil, "key_2": new(time.Now())} {
		p.exec(`INSERT INTO api_key (workspace_id, key_id, name, permissions, created_at, revoked_at) VALUES ('acme', $1, 'k', '{}', now(), $2)`, key, revoked)
	}
	p.after("restored access", Warning, "1 key works and 0 people are signed in to the console, as at the last change of them, which the audit trail does not tell")
	p.exec(`INSERT INTO console_audit (workspace_id, at, audit_id, person, via, action, object_id, object_name, detail)
		VALUES ('acme', '2026-10-02T09:15:00Z', gen_random_uuid(), 'somebody', 'command', 'key.create', 'key_1', 'k', '')`)
	p.after("restored access", Warning, "which is of 2026-10-02T09:15:00.000Z")

	p.exec(`UPDATE webhook_cursor SET position = 9`)
	p.after("restored positions", Error, "0 checkpoints and 1 webhook are ahead")
	p.exec(`UPDATE webhook_cursor SET position = 0`)
	p.exec(`UPDATE log_checkpoint SET position = 4 WHERE workspace_id = 'blue'`)
	p.after("restored positions", Error, "1 checkpoint and 0 webhooks are ahead")

	p.exec(`ALTER TABLE event_log DISABLE TRIGGER ALL`)
	p.exec(`UPDATE event_log SET created_at = created_at - interval '40 days' WHERE workspace_id = 'acme' AND position = 1`)
	p.after("webhooks after the restore", Warning, "1 event is past the retention")
	p.exec(`UPDATE event_log SET data = '{"invoice_id":"x"}' WHERE workspace_id = 'acme' AND position = 2`)
	p.after("restored log", Error, "the log of 1 workspace has a wrong chain")
	p.exec(`DELETE FROM event_log WHERE workspace_id = 'blue' AND position = 3`)
	p.after("restored log", Error, "of 1 workspace does not end where it should")
}
