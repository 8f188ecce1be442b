package doctor

import (
	"os"
	"path/filepath"
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
	p.after("restored people", OK, "0 people are forgotten; the log has no values about anybody")
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
	p.after("restored log", Warning, "6 entries in 2 workspaces; the newest 100 of each have the right chain; the newest of all, other than entries that forget people, was appended on 2")
	p.after("restored positions", OK, "not ahead")
	p.after("webhooks after the restore", OK, "1 webhook is on: 2 events will be sent")

	for key, revoked := range map[string]*time.Time{"key_1": nil, "key_2": new(time.Now())} {
		p.exec(`INSERT INTO api_key (workspace_id, key_id, name, permissions, created_at, revoked_at) VALUES ('acme', $1, 'k', '{}', now(), $2)`, key, revoked)
	}
	p.after("restored access", Warning, "1 key works and 0 people are signed in to the console. The audit trail does not say when this last changed")
	p.exec(`INSERT INTO console_audit (workspace_id, at, audit_id, person, via, action, object_id, object_name, detail)
		VALUES ('acme', '2026-10-02T09:15:00Z', gen_random_uuid(), 'somebody', 'command', 'key.create', 'key_1', 'k', '')`)
	p.after("restored access", Warning, "This last changed on 2026-10-02T09:15:00.000Z")

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

// TestRestoredPeople: people are counted, not the entries that forget them, and nothing is left to do once
// everybody on the list is forgotten. That changes nothing about the time that producers are told.
func TestRestoredPeople(t *testing.T) {
	t.Parallel()
	p := newPatient(t, "LEDGERFEED_DATA_DIR="+t.TempDir())
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: p.pool, Clock: time.Now}))(t)
	forget := func(id string) domain.Draft {
		return testkit.Must(eventlog.ForgetDraft("acme", eventlog.Subject{Kind: eventlog.SubjectClient, ID: id}, ""))(t)
	}
	for range 3 {
		record := testkit.Must(domain.NewDraft("acme", "client.recorded", []byte(`{"client_id":"c","name":"n"}`)))(t)
		testkit.Must(log.Append(t.Context(), record, forget("c")))(t)
	}
	p.after("restored people", Warning, "1 person is forgotten, and for 1 of them the deletion has not ended in this log. People who were forgotten after the backup are back. There is no list of them at ")

	p.exec(`ALTER TABLE event_log DISABLE TRIGGER ALL`)
	p.exec(`UPDATE event_log SET appended_at = '2026-10-02T09:15:00Z' WHERE type = 'client.recorded'`)
	later := []domain.Draft{forget("d"), forget("d"), forget("e")}
	var list []byte
	for _, d := range later {
		d.CreatedAt = time.Now()
		e := d.Entry()
		list = e.AppendNDJSON(list)
		e.WorkspaceID = "other"
		list = e.AppendNDJSON(list)
	}
	if err := os.WriteFile(p.env.ForgottenList(p.db), list, 0o600); err != nil {
		t.Fatal(err)
	}
	p.after("restored people", Warning, "forgotten.ndjson, 2 people are back")
	testkit.Must(log.Append(t.Context(), later[:2]...))(t)
	p.after("restored people", Warning, "forgotten.ndjson, 1 person is back")
	testkit.Must(log.Append(t.Context(), later[2]))(t)
	p.after("restored people", OK, "3 people are forgotten, and for 3 of them the deletion has not ended; so is everybody on the list ")
	p.after("restored log", Warning, "9 entries in 1 workspace; the newest 100 of each have the right chain; the newest of all, other than entries that forget people, was appended on 2026-10-02T09:15:00.000Z")

	p.list = filepath.Join(t.TempDir(), "mistyped")
	p.after("restored people", Error, "cannot read who was forgotten")
}
