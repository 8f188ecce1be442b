package mail

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// Mails whose rows another transaction has locked, however many of one workspace, do not
// hold up those of another workspace that are due after them; and a mail is claimed once.
func TestLockedMailsHoldUpNobody(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	clock := testkit.NewClock(time.Date(2026, 10, 2, 9, 0, 0, 0, time.UTC))
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create(id, 'Acme', now()) FROM unnest('{acme,bolt}'::text[]) id`))(t)
	testkit.Must(pool.Exec(t.Context(), `UPDATE workspace SET notify_email = 'mara@example.com'`))(t)
	const most = 3 * claimedAtOnce
	insert := `INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at)
		SELECT $1, 'm' || n, 'w', 's', 'b', $2, $2 FROM generate_series(1, $3::int) n`
	testkit.Must(pool.Exec(t.Context(), insert, "acme", clock.Now().Add(-time.Minute), most))(t)
	testkit.Must(pool.Exec(t.Context(), insert, "bolt", clock.Now(), 1))(t)
	url, mails := plainServer(t)
	m := testkit.Must(New(Settings{URL: url, From: "ledgerfeed@example.com"}, pool, clock.Now, testkit.Discard()))(t)

	locks := testkit.Must(pool.Begin(t.Context()))(t)
	defer locks.Rollback(t.Context())
	testkit.Must(locks.Exec(t.Context(), `SELECT FROM webhook_mail WHERE workspace_id = 'acme' FOR UPDATE`))(t)
	claimed := testkit.Must(m.claimDue(t.Context()))(t)
	if len(claimed) != 1 || claimed[0].WorkspaceID != "bolt" {
		t.Fatalf("%d mails were claimed beside the locked ones: %+v", len(claimed), claimed)
	}
	if again := testkit.Must(m.claimDue(t.Context()))(t); len(again) != 0 {
		t.Errorf("a mail was claimed twice: %+v", again)
	}
	if err := locks.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range most / claimedAtOnce {
		testkit.Must(m.sendDue(t.Context()))(t)
	}
	var left []string
	rows := testkit.Must(pool.Query(t.Context(), `SELECT workspace_id FROM webhook_mail`))(t)
	left = testkit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	if mails.Load() != most || len(left) != 1 || left[0] != "bolt" {
		t.Errorf("%d mails arrived, %q wait", mails.Load(), left)
	}
}

// slow takes its time over mails to one recipient.
type slow struct {
	counter
	to   string
	took chan struct{} // closed: it goes on
}

func (s slow) Rcpt(to string, options *smtp.RcptOptions) error {
	if to == s.to {
		<-s.took
	}
	return s.counter.Rcpt(to, options)
}

// TestASlowRecipientDelaysNobody: mails that are claimed together are sent at the same time, so a
// slow one does not delay the others.
func TestASlowRecipientDelaysNobody(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	testkit.Must(pool.Exec(t.Context(), `UPDATE workspace SET notify_email = 'slow@example.com, mara@example.com, lee@example.com'`))(t)
	server := slow{counter{&atomic.Int64{}}, "slow@example.com", make(chan struct{})}
	m := testkit.Must(New(Settings{URL: serve(t, server), From: "ledgerfeed@example.com"}, pool, time.Now, testkit.Discard()))(t)
	if err := m.Test(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := m.sendDue(context.WithoutCancel(t.Context())); done <- err }()
	testkit.Eventually(t, func() error {
		if n := server.mails.Load(); n != 2 {
			return fmt.Errorf("%d mails arrived beside the slow one", n)
		}
		return nil
	})
	close(server.took)
	if err := <-done; err != nil || server.mails.Load() != 3 {
		t.Errorf("%d mails arrived, %v", server.mails.Load(), err)
	}
}
