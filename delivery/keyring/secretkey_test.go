package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.MainAs(m, migrations.Up, migrations.ApplyGrants) }

const (
	first  = "the first key of them"
	second = "the second key of them"
)

// bench is a database with a workspace.
type bench struct {
	t    *testing.T
	pool testkit.DB
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{t, testkit.Pool(t)}
	b.exec(`SELECT workspace_create('acme', 'Acme', now())`)
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func keys(t *testing.T, text string) *keyring.Keyring {
	t.Helper()
	return testkit.Must(keyring.New(text))(t)
}

func (b *bench) inTx(do func(context.Context, pgx.Tx) error) error {
	return pg.InTx(b.t.Context(), b.pool, func(tx pgx.Tx) error { return do(b.t.Context(), tx) })
}

func (b *bench) register(text string) error {
	return b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		return keyring.Register(ctx, tx, keys(b.t, text), time.Now())
	})
}

// seal adds a webhook with a secret that a process with the keys has sealed.
func (b *bench) seal(id, text string) error {
	return b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		k, err := keyring.Sealing(ctx, tx, keys(b.t, text), time.Now())
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', $1, 'https://example.com', now(), $2)`,
			id, k.Seal("acme", id, "whsec_"+id))
		return err
	})
}

// opens tells whether a process with the keys opens a webhook's secret.
func (b *bench) opens(id, text string) bool {
	b.t.Helper()
	var box []byte
	if err := b.pool.QueryRow(b.t.Context(), `SELECT secret FROM webhook WHERE webhook_id = $1`, id).Scan(&box); err != nil {
		b.t.Fatal(err)
	}
	got, err := keys(b.t, text).Open("acme", id, box)
	return err == nil && got == "whsec_"+id
}

func isMissing(err error) bool {
	var missing *keyring.MissingError
	return errors.As(err, &missing)
}

// Of processes with different keys that start at the same time, those of one key can
// seal. With both keys a process seals under the database's.
func TestOneKeySeals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wait sync.WaitGroup
	registered, sealed := make([]error, 8), make([]error, 8)
	own := func(i int) string { return fmt.Sprintf("the key of process %d", i) }
	for i := range registered {
		wait.Go(func() {
			if registered[i] = b.register(own(i)); registered[i] == nil {
				sealed[i] = b.seal(fmt.Sprintf("wh_%d", i), own(i))
			}
		})
	}
	wait.Wait()
	winner, n := -1, 0
	for i := range registered {
		err := errors.Join(registered[i], sealed[i])
		switch {
		case err == nil:
			winner = i
			n++
		case !isMissing(err):
			t.Errorf("process %d: %v", i, err)
		}
	}
	if n != 1 {
		t.Fatalf("%d of 8 keys sealed: %v %v", n, registered, sealed)
	}
	if err := b.register(second); !isMissing(err) {
		t.Errorf("another key: %v", err)
	}
	if err := errors.Join(b.register(second+","+own(winner)), b.seal("wh_both", second+","+own(winner))); err != nil || !b.opens("wh_both", own(winner)) {
		t.Errorf("with both keys, not sealed under the database's: %v", err)
	}
}

// A key that nothing is sealed under is no loss: another one takes its place, unless a
// process that delivers has it.
func TestUnusedKeyIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := errors.Join(b.register(first), b.register(second)); err != nil {
		t.Fatal(err)
	}
	f := keys(t, second).Fingerprints()[0]
	b.exec(`INSERT INTO webhook_instance (instance_id, lease_until, secret_keys, of_table) VALUES ('i', now() + interval '1 hour', ARRAY[$1::bytea], 'webhook_instance'::regclass)`, f[:])
	if err := b.register(first); !isMissing(err) {
		t.Errorf("beside a process that delivers with another key: %v", err)
	}
}

// Secrets that were sealed before the database knew its key count too.
func TestSecretsOfEarlierPrograms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box := keys(t, first).Seal("acme", "wh_1", "whsec_wh_1")
	b.exec(`INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', 'wh_1', 'https://example.com', now(), $1)`, box)
	if err := b.register(second); !isMissing(err) {
		t.Errorf("a key that opens nothing became the database's: %v", err)
	}
	if err := b.register(first); err != nil {
		t.Error(err)
	}
}

// A rotation encrypts everything with the new key, needs the old one for that, waits
// for processes that deliver, and can be run again.
func TestRotate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []string{"wh_1", "wh_2"} {
		if err := b.seal(id, first); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(text string) error {
		return keyring.Rotate(t.Context(), b.pool, keys(t, text), time.Now(), nil)
	}
	if err := rotate(second); !isMissing(err) {
		t.Errorf("without the old key: %v", err)
	}
	fingerprint := func(text string) []byte { f := keys(t, text).Fingerprints()[0]; return f[:] }
	b.exec(`INSERT INTO webhook_instance (instance_id, lease_until, secret_keys, of_table) VALUES ('i', now() + interval '1 hour', ARRAY[$1::bytea], 'webhook_instance'::regclass)`, fingerprint(first))
	var early *keyring.NotReadyError
	if err := rotate(second + "," + first); !errors.As(err, &early) || early.Processes != 1 {
		t.Errorf("while a process delivers without the new key: %v", err)
	}
	b.exec(`UPDATE webhook_instance SET secret_keys = secret_keys || $1::bytea`, fingerprint(second))
	for range 2 {
		if err := rotate(second + "," + first); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.seal("wh_3", first+","+second); err != nil || !b.opens("wh_3", second) {
		t.Errorf("not sealed under the new key: %v", err)
	}
	if n, err := keyring.Reseal(t.Context(), b.pool, keys(t, second+","+first), time.Now()); n != 2 || err != nil {
		t.Errorf("%d sealed again, %v", n, err)
	}
	for _, id := range []string{"wh_1", "wh_2", "wh_3"} {
		if !b.opens(id, second) || b.opens(id, first) {
			t.Errorf("%s is not sealed under the new key", id)
		}
	}
	if err := b.register(second); err != nil {
		t.Errorf("the new key alone: %v", err)
	}
	if err := b.register(first); !isMissing(err) {
		t.Errorf("the old key alone: %v", err)
	}
	var lines int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM console_audit WHERE workspace_id = '*' AND action = 'secret_key.rotate'`).Scan(&lines); err != nil || lines != 1 {
		t.Errorf("%d lines in the audit trail, %v", lines, err)
	}
}

// A secret of an earlier rotation that still signs is one that needs its key, and is sealed
// again, wherever among the secrets of its webhook it stands. One whose time is over is not
// waited for.
func TestOlderSecretsAreSealedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	both := second + "," + first
	if err := errors.Join(b.seal("wh_1", first), keyring.Rotate(t.Context(), b.pool, keys(t, both), time.Now(), nil), b.seal("wh_2", both)); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE webhook SET secret = w.secret FROM (SELECT secret FROM webhook WHERE webhook_id = 'wh_2') AS w WHERE webhook_id = 'wh_1'`)
	b.exec(`UPDATE webhook SET older_secrets = ARRAY[$1::bytea, $2::bytea, $1::bytea], older_secrets_until = ARRAY[now() + interval '2 hours', now() + interval '1 hour', now() - interval '1 hour']
		 WHERE webhook_id = 'wh_1'`, keys(t, second).Seal("acme", "wh_1", "whsec_newer"), keys(t, first).Seal("acme", "wh_1", "whsec_older"))
	f := keys(t, first).Fingerprints()[0]
	if s := testkit.Must(keyring.ReadState(t.Context(), b.pool, time.Now()))(t); s.Secrets[f] != 1 {
		t.Errorf("%d secrets need the first key, want 1", s.Secrets[f])
	}
	if err := b.register(second); !isMissing(err) {
		t.Errorf("without the key of an older secret: %v", err)
	}
	if n, err := keyring.Reseal(t.Context(), b.pool, keys(t, both), time.Now()); n != 1 || err != nil {
		t.Errorf("%d sealed again, %v", n, err)
	}
	var boxes [][]byte
	if err := b.pool.QueryRow(t.Context(), `SELECT older_secrets FROM webhook WHERE webhook_id = 'wh_1'`).Scan(&boxes); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"whsec_newer", "whsec_older", "whsec_newer"} {
		if got, err := keys(t, second).Open("acme", "wh_1", boxes[i]); got != want {
			t.Errorf("the new key opens %q, want %q: %v", got, want, err)
		}
	}
}

// A key that is lost can be given up: the database goes on with another one, and its
// secrets are gone.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.seal("wh_1", first); err != nil {
		t.Fatal(err)
	}
	give := func(lost string) error {
		return keyring.Rotate(t.Context(), b.pool, keys(t, second), time.Now(), keys(t, lost).Fingerprints())
	}
	if err := give("a key that nobody has"); !isMissing(err) {
		t.Errorf("a key was given up in another one's place: %v", err)
	}
	if err := give(first); err != nil {
		t.Fatal(err)
	}
	if err := b.register(second); err != nil {
		t.Errorf("after the other key was given up: %v", err)
	}
	if n, err := keyring.Reseal(t.Context(), b.pool, keys(t, second), time.Now()); n != 0 || err != nil {
		t.Errorf("%d sealed again, %v", n, err)
	}
	if err := b.seal("wh_2", second); err != nil || !b.opens("wh_2", second) {
		t.Error(err)
	}
	if err := b.register(first); !isMissing(err) {
		t.Errorf("the lost key, found again, alone: %v", err)
	}
	var detail string
	err := b.pool.QueryRow(t.Context(), `SELECT detail FROM console_audit WHERE workspace_id = '*' AND action = 'secret_key.give_up'`).Scan(&detail)
	if err != nil || detail != "1 secret cannot be opened any more" {
		t.Errorf("the audit trail says %q, %v", detail, err)
	}
}

// TestARotationThatWaitsDelaysNobody: while a rotation waits for a transaction that
// uses the key, others make secrets.
func TestARotationThatWaitsDelaysNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.seal("wh_0", first); err != nil {
		t.Fatal(err)
	}
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM secret_key FOR UPDATE`))(t)
	rotated := make(chan error, 1)
	go func() { rotated <- keyring.Rotate(t.Context(), b.pool, keys(t, second+","+first), time.Now(), nil) }()
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, b.pool, 1) })
	// It may queue behind the rotation for a moment, and must not until the other one ends.
	if err := b.seal("wh_1", first); err != nil {
		t.Error(err)
	}
	_ = tx.Rollback(t.Context())
	if err := <-rotated; err != nil {
		t.Error(err)
	}
}
