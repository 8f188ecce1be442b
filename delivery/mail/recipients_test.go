package mail

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Each address gets a mail of its own: one that the server refuses does not hold up the
// others, and one that the workspace no longer has gets none. A mail that the version
// before has stored goes to all.
func TestSeveralRecipients(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	url, mails := plainServer(t)
	m := testkit.Must(New(Settings{URL: url, From: "ledgerfeed@example.com"}, pool, time.Now, testkit.Discard()))(t)
	if err := m.Test(t.Context(), "acme"); !errors.Is(err, ErrNobody) {
		t.Errorf("without an address: %v", err)
	}
	set := func(addresses string) {
		testkit.Must(pool.Exec(t.Context(), `UPDATE workspace SET notify_email = $1`, addresses))(t)
	}
	// send tests the addresses that are set, with others at the time of sending.
	send := func(then string) (left string) {
		t.Helper()
		if err := m.Test(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		set(then)
		testkit.Must(m.sendDue(t.Context()))(t)
		if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(recipient, ' '), '') FROM webhook_mail`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left
	}
	set("nobody@example.com, mara@example.com, lee@example.com")
	if left := send("nobody@example.com, mara@example.com, lee@example.com"); mails.Load() != 2 || left != "nobody@example.com" {
		t.Errorf("%d mails arrived, and %q waits", mails.Load(), left)
	}
	testkit.Must(pool.Exec(t.Context(), `DELETE FROM webhook_mail`))(t)
	set("mara@example.com, lee@example.com")
	if left := send("lee@example.com"); mails.Load() != 3 || left != "" {
		t.Errorf("%d mails arrived, and %q waits", mails.Load(), left)
	}
	set("mara@example.com, lee@example.com")
	testkit.Must(pool.Exec(t.Context(), `
		INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at) VALUES ('acme', 'old', 'w', 's', 'b', now(), now())`))(t)
	testkit.Must(m.sendDue(t.Context()))(t)
	if mails.Load() != 4 {
		t.Errorf("%d mails arrived, want one more, to both", mails.Load())
	}
}

// A test mail that cannot be sent is tried for an hour, others for a week: people ask for
// many tests, of addresses that they have mistyped.
func TestTestsAreDropped(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	testkit.Must(pool.Exec(t.Context(), `UPDATE workspace SET notify_email = 'nobody@example.com'`))(t)
	url, _ := plainServer(t)
	clock := testkit.NewClock(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	m := testkit.Must(New(Settings{URL: url, From: "ledgerfeed@example.com"}, pool, clock.Now, testkit.Discard()))(t)
	if err := m.Test(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	testkit.Must(pool.Exec(t.Context(), `
		INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at) VALUES ('acme', 'm', 'w', 's', 'b', $1, $1)`, clock.Now()))(t)
	for _, c := range []struct {
		after time.Duration
		waits string
	}{{0, "Test mail, s"}, {50 * time.Minute, "Test mail, s"}, {11 * time.Minute, "s"}, {6 * 24 * time.Hour, "s"}, {24 * time.Hour, ""}} {
		clock.Advance(c.after)
		testkit.Must(m.sendDue(t.Context()))(t)
		var waits string
		if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(subject, ', ' ORDER BY subject COLLATE "C"), '') FROM webhook_mail`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits != c.waits {
			t.Errorf("after %v more %q waits, want %q", c.after, waits, c.waits)
		}
	}
}
