package console

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

var dana = audit.Actor{Via: audit.ViaConsole, Name: "Dana", Issuer: "https://id.example", Subject: "user-1"}

// changes are all changes that stores make, with the action that the audit trail has
// of them. Each works once on a bundle.
func (s *bundle) changes() []change {
	s.exec(`UPDATE workspace SET notify_email = 'finance@acme.example' WHERE workspace_id = 'acme'`)
	key, _ := s.key(acme, "key", access.EventsRead)
	ended, _ := s.key(acme, "ended", access.EventsRead)
	hook := testkit.Must(s.webhooks.Create(s.t.Context(), acme, delivery.Definition{URL: "https://hooks.example/a", Events: []string{"all"}}))(s.t).ID
	off := testkit.Must(s.webhooks.Create(s.t.Context(), acme, delivery.Definition{URL: "https://hooks.example/b", Events: []string{"all"}}))(s.t).ID
	s.turnOff(off, s.clock.Now())
	gone := testkit.Must(s.webhooks.Create(s.t.Context(), acme, delivery.Definition{URL: "https://hooks.example/c", Events: []string{"all"}}))(s.t).ID
	stopped := testkit.Must(s.webhooks.Create(s.t.Context(), acme, delivery.Definition{URL: "https://hooks.example/f", Events: []string{"all"}}))(s.t)
	testkit.Must(stopped.Pause(audit.As(s.t.Context(), dana), s.webhooks))(s.t)
	event := s.append(acme, "invoice.reversed", `{"invoice_id":"in_1"}`)
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		VALUES ('acme', $1, 1, now(), $2, 'invoice.reversed', 'failed', '[]')`, hook, event)
	later := s.append(acme, "invoice.reversed", `{"invoice_id":"in_2"}`)
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
		VALUES ('acme', $1, 2, now(), $2, 'invoice.reversed', 'pending', now() + interval '1 hour', '[]')`, hook, later)
	s.exec(`INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch)
		SELECT workspace_id, webhook_id, position, created_at, 1, next_attempt_at, 1 FROM webhook_delivery WHERE position = 2`)
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		VALUES ('acme', $1, 2, now(), $2, 'invoice.reversed', 'failed', '[]')`, gone, later)
	s.exec(`INSERT INTO anomaly (workspace_id, position, reason, event_id) VALUES ('acme', 1, 'unknown_object', $1)`, event)
	s.exec(`UPDATE log_checkpoint SET quarantined = true, position = 0 WHERE workspace_id = 'acme'`)
	s.exec(`UPDATE webhook_cursor SET position = 1 WHERE webhook_id = $1`, gone) // it has missed the event
	quarantine := eventlog.NewQuarantine(s.pool, eventlog.ReadModels, s.clock.Now, s.notifier.Notify)
	workspaces := eventlog.NewWorkspaces(s.pool, s.clock.Now)
	inTx := func(do func(context.Context, pgx.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error {
			return pg.InTx(ctx, s.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
		}
	}
	opening := session.Opening{
		Person: session.Person{Name: dana.Name, Issuer: dana.Issuer, Subject: dana.Subject}, WorkspaceID: acme,
		Grants: []session.Grant{{Workspace: acme, Role: session.Admin}}, SignedIn: s.clock.Now(),
	}
	token, _, err := s.sessions.Open(s.t.Context(), opening)
	if err != nil {
		s.t.Fatal(err)
	}
	opened := testkit.Must(s.sessions.Find(s.t.Context(), token, false))(s.t)
	name, address := "Another name", "https://hooks.example/d"
	return []change{
		{audit.WorkspaceCreate, inTx(func(ctx context.Context, tx pgx.Tx) error {
			return workspaces.Create(ctx, tx, eventlog.Workspace{ID: "new", Name: "New"})
		})},
		{audit.WorkspaceSet, inTx(func(ctx context.Context, tx pgx.Tx) error { return workspaces.Set(ctx, tx, acme, &name, nil) })},
		{audit.WorkspaceTestMail, func(ctx context.Context) error { return s.console.settings.Mailer.Test(ctx, acme) }},
		{audit.KeyCreate, func(ctx context.Context) error {
			_, _, err := s.keys.Create(ctx, access.NewKey{WorkspaceID: acme, Name: "n", Permissions: access.PermissionsOf(access.EventsRead)})
			return err
		}},
		{audit.KeyRotate, func(ctx context.Context) error { _, _, err := s.keys.Rotate(ctx, acme, key, time.Hour); return err }},
		{audit.KeySetLimit, func(ctx context.Context) error { _, err := s.keys.SetRateLimit(ctx, acme, key, 7); return err }},
		{audit.KeyRename, func(ctx context.Context) error { _, err := s.keys.Rename(ctx, acme, key, "n2"); return err }},
		{audit.KeyRevoke, func(ctx context.Context) error { _, err := s.keys.Revoke(ctx, acme, ended); return err }},
		{audit.WebhookCreate, func(ctx context.Context) error {
			_, err := s.webhooks.Create(ctx, acme, delivery.Definition{URL: "https://hooks.example/e", Events: []string{"all"}})
			return err
		}},
		{audit.WebhookEdit, func(ctx context.Context) error {
			_, err := s.webhooks.Edit(ctx, hook, delivery.Change{URL: &address, Events: []string{"invoice.paid"}})
			return err
		}},
		{audit.WebhookRotateSecret, func(ctx context.Context) error { _, err := s.webhooks.RotateSecret(ctx, hook); return err }},
		{audit.WebhookTest, func(ctx context.Context) error { _, err := s.webhooks.Test(ctx, hook); return err }},
		{audit.WebhookTurnOn, func(ctx context.Context) error { _, err := s.webhooks.TurnOn(ctx, off); return err }},
		{audit.WebhookPause, func(ctx context.Context) error {
			_, err := testkit.Must(s.webhooks.Get(ctx, hook))(s.t).Pause(ctx, s.webhooks)
			return err
		}},
		{audit.WebhookResume, func(ctx context.Context) error { _, err := stopped.Resume(ctx, s.webhooks); return err }},
		{audit.WebhookSendMissed, func(ctx context.Context) error {
			_, err := s.webhooks.SendMissed(ctx, gone, s.clock.Now().Add(-time.Hour))
			return err
		}},
		{audit.WebhookRecover, func(ctx context.Context) error {
			_, err := s.webhooks.Recover(ctx, gone, s.clock.Now().Add(-time.Hour), nil)
			return err
		}},
		{audit.DeliveryResend, func(ctx context.Context) error { _, err := s.webhooks.Resend(ctx, event+"_"+hook); return err }},
		{audit.DeliveryRetry, func(ctx context.Context) error {
			_, err := s.webhooks.RetryNow(ctx, later+"_"+hook)
			return err
		}},
		{audit.WebhookDelete, func(ctx context.Context) error { return s.webhooks.Delete(ctx, gone) }},
		{audit.AnomalyAcknowledge, func(ctx context.Context) error {
			_, err := anomaly.NewStore(s.pool, s.clock.Now).Acknowledge(ctx, acme, anomaly.Which{Reason: domain.UnknownObject}, "the producer knows")
			return err
		}},
		{audit.EntryRetry, func(ctx context.Context) error { return quarantine.Retry(ctx, acme) }},
		{audit.EntrySkip, func(ctx context.Context) error { _, err := quarantine.Skip(ctx, acme, "a reason"); return err }},
		{audit.LinkCreate, func(ctx context.Context) error {
			_, _, err := s.sessions.CreateLink(ctx, session.Link{WorkspaceID: acme})
			return err
		}},
		{audit.SignIn, func(ctx context.Context) error { _, _, err := s.sessions.Open(ctx, opening); return err }},
		{audit.SignOut, func(ctx context.Context) error { return s.sessions.SignOut(ctx, opened) }},
	}
}

type change struct {
	action audit.Action
	do     func(context.Context) error
}

// state is all that the changes concern.
func (s *bundle) state() string {
	s.t.Helper()
	var b strings.Builder
	for _, table := range []string{
		"workspace", "log_head", "log_skip", "log_checkpoint", "api_key", "api_key_secret", "anomaly_acknowledged", "webhook", "webhook_cursor", "webhook_waiting", "webhook_delivery",
		"webhook_mail", "console_link", "console_session", "console_audit",
	} {
		var text string
		if err := s.pool.QueryRow(s.t.Context(), `SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM `+table+` r`).Scan(&text); err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", table, text)
	}
	return b.String()
}

// Every change has one line in the audit trail, by the actor of its context, and in
// its own transaction: where the line cannot be written, nothing changes.
func TestNoChangeWithoutItsLine(t *testing.T) {
	t.Parallel()
	s := setup(t)
	list := s.changes()
	ctx := audit.As(t.Context(), dana)
	s.exec(`ALTER TABLE console_audit ADD CONSTRAINT refuse CHECK (at < '2000-01-01') NOT VALID`)
	before := s.state()
	for _, c := range list {
		if err := c.do(ctx); err == nil || !strings.Contains(err.Error(), "cannot add "+string(c.action)+" to the audit trail") {
			t.Errorf("%s without its line: %v", c.action, err)
		}
		if after := s.state(); after != before {
			t.Fatalf("%s without its line changed\n%s\nto\n%s", c.action, before, after)
		}
	}
	s.exec(`ALTER TABLE console_audit DROP CONSTRAINT refuse`)
	all, _ := s.lines("")
	for _, c := range list {
		_, rightBefore := s.lines(c.action)
		if err := c.do(ctx); err != nil {
			t.Errorf("%s: %v", c.action, err)
			continue
		}
		now, right := s.lines(c.action)
		if now != all+1 || right != rightBefore+1 {
			t.Errorf("%s: %d lines more, %d of them with the action and the actor", c.action, now-all, right-rightBefore)
		}
		all = now
	}
}

// lines counts the lines of the audit trail, and those of an action by dana.
func (s *bundle) lines(action audit.Action) (all, right int) {
	s.t.Helper()
	err := s.pool.QueryRow(s.t.Context(), `
		SELECT count(*), count(*) FILTER (WHERE action = $1 AND via = 'console' AND person = $2 AND issuer = $3 AND subject = $4) FROM console_audit`,
		string(action), dana.Name, dana.Issuer, dana.Subject).Scan(&all, &right)
	if err != nil {
		s.t.Fatal(err)
	}
	return all, right
}

// What people do in the console is audited as theirs, by the id that the identity
// provider gives them: the name may be their own choice. A sign-in link's id stands
// for who uses it, and leads to who made it.
func TestAuditTellsPeopleApart(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := p.setup(t, "finance=acme:admin")
	who := s.stranger()
	p.claims = map[string]any{"groups": "finance", "sub": "user-7", "email_verified": false, "preferred_username": "The Boss"}
	p.signIn(who, "/keys")
	who.post("/webhooks", url.Values{"address": {"https://hooks.example/x"}, "choice": {"all"}}).has("whsec_")
	who.get("/audit").has("The Boss", "user-7", p.URL, "Added webhook")

	guest := s.signIn(acme, session.Admin)
	guest.post("/webhooks", url.Values{"address": {"https://hooks.example/y"}, "choice": {"all"}}).has("whsec_")
	rows := testkit.Must(s.pool.Query(t.Context(), `
		SELECT a.action, a.person, a.issuer, a.subject = l.object_id, a.via FROM console_audit a LEFT JOIN console_audit l ON l.action = 'link.create'
		 WHERE a.action <> 'link.create' ORDER BY a.at`))(t)
	type line struct {
		Action, Person, Issuer string
		Linked                 bool
		Via                    string
	}
	got := testkit.Must(pgx.CollectRows(rows, pgx.RowToStructByPos[line]))(t)
	want := []line{
		{"session.sign_in", "The Boss", p.URL, false, "console"}, {"webhook.create", "The Boss", p.URL, false, "console"},
		{"session.sign_in", "admin@acme.example", "", true, "console"}, {"webhook.create", "admin@acme.example", "", true, "console"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the audit has\n%+v, want\n%+v", got, want)
	}
}
