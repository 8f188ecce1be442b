package keyring_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// between is a tracer that does something else once, before or after the statement that looks
// for secrets to seal again.
type between struct {
	once          sync.Once
	before, after func()
}

const looksForSecrets = "substring(secret FOR 8) <>"

type traced struct{}

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, looksForSecrets) {
		return ctx
	}
	if b.before != nil {
		b.once.Do(b.before)
	}
	return context.WithValue(ctx, traced{}, true)
}

func (b *between) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(traced{}) != nil && b.after != nil {
		b.once.Do(b.after)
	}
}

// poolWith is another pool of the database, with a tracer.
func (b *bench) poolWith(tracer pgx.QueryTracer) testkit.DB {
	b.t.Helper()
	cfg := b.pool.Config()
	cfg.ConnConfig.Tracer = tracer
	pool := testkit.Must(pgxpool.NewWithConfig(b.t.Context(), cfg))(b.t)
	b.t.Cleanup(pool.Close)
	return pool
}

// rotate makes another key the one that seals, and seals everything under it, as ledgerfeed
// secret-key rotate does.
func (b *bench) rotate(text string) {
	b.t.Helper()
	if err := keyring.Rotate(b.t.Context(), b.pool, keys(b.t, text), time.Now(), nil); err != nil {
		b.t.Fatal(err)
	}
	testkit.Must(keyring.Reseal(b.t.Context(), b.pool, keys(b.t, text), time.Now()))(b.t)
}

// TestARotationDuringAReseal: a process that read which key seals, before a rotation, does not
// seal what the rotation has sealed back under the old key. The old key could then be thrown
// away, and nobody could open the secret any more.
func TestARotationDuringAReseal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.seal("wh_1", first); err != nil {
		t.Fatal(err)
	}
	rotated := false
	pool := b.poolWith(&between{before: func() { rotated = true; b.rotate(second + "," + first) }})
	if n, err := keyring.Reseal(t.Context(), pool, keys(t, second+","+first), time.Now()); n != 0 || err != nil || !rotated {
		t.Errorf("sealed %d again beside a rotation, %v; rotated: %t", n, err, rotated)
	}
	if !b.opens("wh_1", second) {
		t.Error("the key that seals does not open the secret")
	}
}

// TestANewSecretDuringAReseal: a webhook that gets a new secret while its secret is sealed
// again keeps nothing under the old key, neither in the new secret's place nor in the old's.
func TestANewSecretDuringAReseal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.seal("wh_1", first); err != nil {
		t.Fatal(err)
	}
	both := second + "," + first
	if err := keyring.Rotate(t.Context(), b.pool, keys(t, both), time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	pool := b.poolWith(&between{after: func() {
		b.exec(`UPDATE webhook SET old_secret = secret, old_secret_until = now() + interval '1 day', secret = $1 WHERE workspace_id = 'acme' AND webhook_id = 'wh_1'`,
			keys(t, second).Seal("acme", "wh_1", "whsec_new"))
	}})
	if n, err := keyring.Reseal(t.Context(), pool, keys(t, both), time.Now()); n != 1 || err != nil {
		t.Errorf("sealed %d again beside a new secret, %v", n, err)
	}
	s := testkit.Must(keyring.ReadState(t.Context(), b.pool, time.Now()))(t)
	if err := s.Check(keys(t, second)); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	var secret, old []byte
	if err := b.pool.QueryRow(t.Context(), `SELECT secret, old_secret FROM webhook WHERE workspace_id = 'acme'`).Scan(&secret, &old); err != nil {
		t.Fatal(err)
	}
	for want, box := range map[string][]byte{"whsec_new": secret, "whsec_wh_1": old} {
		if got, err := keys(t, second).Open("acme", "wh_1", box); got != want {
			t.Errorf("the new key opens %q, want %q: %v", got, want, err)
		}
	}
}
