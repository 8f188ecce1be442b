package mail

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// Where the mail server is taken out of the settings, mails that it refused wait and do
// not fail any more, unless another process still tries them; after a week they are
// dropped.
func TestMailsWithoutServer(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	began := time.Now()
	now := began
	m := testkit.Must(New(Settings{}, pool, func() time.Time { return now }, testkit.Discard()))(t)
	for id, retry := range map[string]time.Duration{"tried by another": 6 * 24 * time.Hour, "untried": time.Minute} {
		_, err := pool.Exec(t.Context(), `
			INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at, error)
			VALUES ('acme', $1, 'w', 'it fails', 'text', $2, $3, '535 refused')`, id, began, began.Add(retry))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		after   time.Duration
		failing map[string]bool
	}{
		{0, map[string]bool{"tried by another": true, "untried": true}},
		{10 * time.Minute, map[string]bool{"tried by another": true, "untried": false}},
		{6*24*time.Hour + time.Hour, map[string]bool{"tried by another": false, "untried": false}},
		{8 * 24 * time.Hour, map[string]bool{}},
	} {
		now = began.Add(c.after)
		if _, err := m.keepUnsent(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := testkit.Must(pool.Query(t.Context(), `SELECT mail_id, error IS NOT NULL FROM webhook_mail`))(t)
		got, id, failing := map[string]bool{}, "", false
		if _, err := pgx.ForEachRow(rows, []any{&id, &failing}, func() error { got[id] = failing; return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(c.failing) || got["tried by another"] != c.failing["tried by another"] || got["untried"] != c.failing["untried"] {
			t.Errorf("after %v: %v, want %v", c.after, got, c.failing)
		}
	}
}

// TestAWrongClockDropsNothing: to a process whose clock is eight days ahead each mail is too old. It
// drops none, and says why.
func TestAWrongClockDropsNothing(t *testing.T) {
	t.Parallel()
	pool := testkit.Must(pgxpool.New(t.Context(), testkit.NewDatabase(t)))(t)
	t.Cleanup(pool.Close)
	testkit.Must(pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	testkit.Must(pool.Exec(t.Context(), `
		INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at)
		VALUES ('acme', 'm', 'w', 'it fails', 'text', now(), now())`))(t)
	log := &testkit.Buffer{}
	m := testkit.Must(New(Settings{}, pool, func() time.Time { return time.Now().AddDate(0, 0, 8) }, log.Logger()))(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	testkit.Eventually(t, func() error {
		if text := log.String(); !strings.Contains(text, "cannot look for mails") || !strings.Contains(text, "clock") {
			return fmt.Errorf("the process does not say that its clock is wrong: %q", text)
		}
		return nil
	})
	end()
	<-done
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_mail`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d mails are left of one: %v", left, err)
	}
}
