package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// watched is a Directory whose polls the test runs itself, at the time of the
// bundle's clock.
type watched struct {
	*Directory
	poller *poller
}

func (b *bundle) directory(t *testing.T, change ...func(*DirectoryConfig)) *watched {
	t.Helper()
	// A machine that is busy with other tests is no outage.
	return b.directoryWithin(t, time.Minute, change...)
}

// directoryWithin is directory with a timeout of polls and look-ups.
func (b *bundle) directoryWithin(t *testing.T, timeout time.Duration, change ...func(*DirectoryConfig)) *watched {
	t.Helper()
	cfg := DirectoryConfig{Pool: b.pool, Format: b.format, Clock: b.clock.Now}
	for _, f := range change {
		f(&cfg)
	}
	w := &watched{testkit.Must(newDirectory(cfg, timeout, timeout))(t), &poller{seen: -1}}
	return w
}

func (w *watched) mustPoll(t *testing.T) {
	t.Helper()
	if err := w.poll(t.Context(), w.poller); err != nil {
		t.Fatal(err)
	}
}

// admits authenticates and returns the key.
func (w *watched) admits(t *testing.T, secret Secret) *Key {
	t.Helper()
	key, err := w.Authenticate(t.Context(), secret.Reveal())
	if err != nil {
		t.Fatalf("the key is not admitted: %v", err)
	}
	return key
}

func (w *watched) refuses(t *testing.T, secret Secret, want Reason) {
	t.Helper()
	_, err := w.Authenticate(t.Context(), secret.Reveal())
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != want || !errors.Is(err, ErrRefused) || refused.Prefix != secret.Prefix() {
		t.Fatalf("got %v (%+v); want a refusal because %s", err, refused, want)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	made, secret := b.create(t, func(n *NewKey) { n.Permissions = PermissionsOf(AllPermissions()...); n.RateLimit = 300 })
	if got := d.admits(t, secret); *got != made.Key {
		t.Errorf("got %+v; want %+v", got, made.Key)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	_, secret := b.create(t)
	text := secret.Reveal()
	for sent, want := range map[string]Reason{
		"":                                ReasonMissing,
		" ":                               ReasonMalformed,
		text[:len(text)-1] + "!":          ReasonMalformed,
		"Bearer " + text:                  ReasonMalformed,
		strings.ToUpper(text):             ReasonMalformed,
		generate(t, b.format).Reveal():    ReasonUnknown,
		strings.Repeat("service_", 1<<16): ReasonMalformed,
	} {
		_, err := d.Authenticate(t.Context(), sent)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != want || !errors.Is(err, ErrRefused) {
			t.Errorf("%.80q: %v; want a refusal because %s", sent, err, want)
		}
	}
	if got := d.Stats().LookUps; got != 1 {
		t.Errorf("%d look-ups; only the unknown key needs one", got)
	}
}

func TestKnownKeysCostNoSQL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	made, secret := b.create(t)
	for range 1000 {
		d.admits(t, secret)
	}
	// Making another key, and changing it, leave this one in the cache.
	other, _ := b.create(t)
	b.revoke(t, other.ID)
	d.mustPoll(t)
	d.admits(t, secret)
	if got := d.Stats(); got != (Stats{Cached: 1, LookUps: 1, Fresh: true}) {
		t.Errorf("got %+v", got)
	}
	// Requests with a revoked key cost no queries either.
	b.revoke(t, made.ID)
	d.mustPoll(t)
	for range 1000 {
		d.refuses(t, secret, ReasonRevoked)
	}
	if got := d.Stats().LookUps; got != 2 {
		t.Errorf("%d look-ups", got)
	}
}

// Two instances have cached a key; each sees a change that a third makes with its next
// poll.
func TestChangesReachEveryInstance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	instances := []*watched{b.directory(t), b.directory(t)}
	made, first := b.create(t)
	for _, d := range instances {
		d.mustPoll(t)
		d.admits(t, first)
	}
	if _, err := b.store.SetRateLimit(t.Context(), "acme", made.ID, 999); err != nil {
		t.Fatal(err)
	}
	for _, d := range instances {
		d.mustPoll(t)
		if got := d.admits(t, first).RateLimit; got != 999 {
			t.Errorf("rate limit %d", got)
		}
	}
	if err := b.rename(t.Context(), "acme", "Acme & Sons"); err != nil {
		t.Fatal(err)
	}
	for _, d := range instances {
		d.mustPoll(t)
		if got := d.admits(t, first).WorkspaceName; got != "Acme & Sons" {
			t.Errorf("workspace name %q", got)
		}
	}
	second := b.rotate(t, made.ID, 0)
	for _, d := range instances {
		d.admits(t, second) // new secrets work before any poll
		d.mustPoll(t)
		d.refuses(t, first, ReasonRotated)
		if got := d.admits(t, second); got.ID != made.ID || got.Prefix != second.Prefix() {
			t.Errorf("the new secret gives %+v", got)
		}
	}
	b.revoke(t, made.ID)
	for _, d := range instances {
		d.mustPoll(t)
		d.refuses(t, first, ReasonRevoked)
		d.refuses(t, second, ReasonRevoked)
	}
}

// An instance that could not poll for 0.9 s looks keys up in the database, and so sees a
// revocation without a poll.
func TestWithoutPollsEveryRequestAsks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	made, secret := b.create(t)
	d.admits(t, secret)
	d.admits(t, secret)
	if got := d.Stats(); got != (Stats{LookUps: 2}) {
		t.Errorf("before the first poll: %+v", got)
	}
	d.mustPoll(t)
	d.admits(t, secret)
	b.revoke(t, made.ID)
	b.clock.Advance(899 * time.Millisecond)
	d.admits(t, secret)
	b.clock.Advance(time.Millisecond)
	d.refuses(t, secret, ReasonRevoked)
	if d.Stats().Fresh {
		t.Error("still fresh")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	_, secret := b.create(t, func(n *NewKey) { n.ExpiresAt = start.Add(500 * time.Millisecond) })
	b.clock.Advance(500*time.Millisecond - 1)
	d.admits(t, secret)
	b.clock.Advance(1)
	d.refuses(t, secret, ReasonExpired) // from memory, without a poll
	if got := d.Stats().LookUps; got != 1 {
		t.Errorf("%d look-ups", got)
	}
}

func TestRotationOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	made, first := b.create(t)
	second := b.rotate(t, made.ID, 24*time.Hour)
	b.clock.Advance(time.Hour)
	third := b.rotate(t, made.ID, time.Minute)
	for _, secret := range []Secret{first, second, third} {
		if got := d.admits(t, secret); got.ID != made.ID || got.Prefix != secret.Prefix() {
			t.Errorf("%s gives %+v", secret, got)
		}
	}
	d.mustPoll(t)
	d.admits(t, second)
	b.clock.Advance(time.Minute)
	d.mustPoll(t)
	d.refuses(t, first, ReasonRotated)
	d.refuses(t, second, ReasonRotated)
	d.admits(t, third)
}

// A rotation without an overlap ends the old secret even on an instance whose clock is
// behind.
func TestRotationWithoutOverlapTrustsNoClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := testkit.NewClock(start.Add(-time.Minute))
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.Clock = slow.Now })
	made, first := b.create(t)
	second := b.rotate(t, made.ID, time.Hour)
	third := b.rotate(t, made.ID, 0)
	d.refuses(t, first, ReasonRotated)
	d.refuses(t, second, ReasonRotated)
	d.admits(t, third)
}

// The whole cache is dropped after more changes than are forgotten one by one, and after
// the database was restored to an earlier state.
func TestForgettingEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	made, secret := b.create(t)
	d.admits(t, secret)
	const fill = `INSERT INTO api_key_secret (workspace_id, key_id, hash, prefix, created_at)
		SELECT workspace_id, key_id, sha256(n::text::bytea), 'x', $1 FROM api_key, generate_series(1, $2) n`
	b.exec(t, fill, start, maxForgotten)
	b.revoke(t, made.ID)
	d.mustPoll(t)
	d.refuses(t, secret, ReasonRevoked)
	b.exec(t, `UPDATE api_key SET revoked_at = NULL, revision = 0`)
	b.exec(t, `UPDATE access_revision SET revision = 0`)
	d.mustPoll(t)
	d.admits(t, secret)
}

// A look-up that read a key before it was revoked must not bring it back into the
// cache after the poll that forgot it.
func TestLateLookUpIsNotCached(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	d.mustPoll(t)
	made, secret := b.create(t)
	epoch := d.cache.currentEpoch()
	old := testkit.Must(readEntries(t.Context(), b.pool, []hash{secret.Hash()}))(t)[secret.Hash()]
	b.revoke(t, made.ID)
	d.mustPoll(t)
	old.readAt = b.clock.Now()
	d.cache.put(secret.Hash(), old, epoch, b.clock.Now())
	d.refuses(t, secret, ReasonRevoked)
}

// Requests whose look-ups have to wait share one query, whatever their keys. Each gets
// a result that is no older than the request, and those that are cancelled do not
// wait.
func TestSharedLookUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.MaxLookUps = 1 })
	d.mustPoll(t)
	var made []*Record
	var secrets []Secret
	for range 3 {
		record, secret := b.create(t)
		made, secrets = append(made, record), append(secrets, secret)
	}
	var wg sync.WaitGroup
	authenticate := func(secret Secret, want error) {
		wg.Go(func() {
			if _, err := d.Authenticate(t.Context(), secret.Reveal()); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", secret, err, want)
			}
		})
	}
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE api_key_secret`))(t)
	authenticate(secrets[0], nil) // its query waits for the lock
	testkit.Eventually(t, func() error {
		if n := d.Stats().LookUps; n != 1 {
			return fmt.Errorf("%d look-ups", n)
		}
		return nil
	})
	cancelled, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went away")
	cancel(gone)
	if _, err := d.Authenticate(cancelled, secrets[0].Reveal()); !errors.Is(err, gone) || errors.Is(err, ErrUnavailable) {
		t.Errorf("cancelled: %v", err)
	}
	testkit.Must(tx.Exec(t.Context(), `UPDATE api_key SET revoked_at = now() WHERE key_id = $1`, made[2].ID))(t)
	for range 5 {
		authenticate(secrets[0], nil)
		authenticate(secrets[1], nil)
		authenticate(secrets[2], ErrRefused)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// Some may have found the first key in the cache.
	if n := d.Stats().LookUps; n < 2 || n > 4 {
		t.Errorf("%d look-ups of 16 requests", n)
	}
}

// A database that does not answer in time is treated as unavailable.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hasty := b.directoryWithin(t, 10*time.Millisecond, func(cfg *DirectoryConfig) { cfg.MaxLookUps = 1 })
	d := b.directory(t)
	_, secret := b.create(t)
	d.mustPoll(t)
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE access_revision, api_key`))(t)
	if err := hasty.poll(t.Context(), hasty.poller); !errors.Is(err, errPollTimeout) {
		t.Errorf("poll: %v", err)
	}
	var wg sync.WaitGroup
	for range 3 { // with a database that hangs, and while other look-ups are under way
		wg.Go(func() {
			if _, err := hasty.Authenticate(t.Context(), secret.Reveal()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errLookUpTimeout) {
				t.Errorf("a database that hangs: %v", err)
			}
		})
	}
	wg.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.mustPoll(t)
	d.admits(t, secret)
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.MaxKeys = 8 })
	var made []*Record
	var secrets []Secret
	for range 20 {
		record, secret := b.create(t)
		made, secrets = append(made, record), append(secrets, secret)
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := (i*7 + worker) % len(secrets)
				key, err := d.Authenticate(t.Context(), secrets[n].Reveal())
				if err != nil || key.ID != made[n].ID {
					t.Errorf("key %d: %v, %v", n, key, err)
				}
			}
		})
	}
	for range 20 {
		d.mustPoll(t)
	}
	wg.Wait()
	if got := d.Stats().Cached; got > 8 {
		t.Errorf("%d cached", got)
	}
}

func TestConfigsAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, cfg := range []DirectoryConfig{
		{Format: b.format},
		{Pool: b.pool},
		{Pool: b.pool, Format: b.format, PollEvery: 301 * time.Millisecond},
		{Pool: b.pool, Format: b.format, PollEvery: -1},
		{Pool: b.pool, Format: b.format, MaxKeys: -1},
		{Pool: b.pool, Format: b.format, MaxLookUps: -1},
	} {
		if _, err := NewDirectory(cfg); err == nil {
			t.Errorf("directory %d is made", i)
		}
	}
	for i, cfg := range []StoreConfig{{Format: b.format}, {Pool: b.pool}} {
		if _, err := NewStore(cfg); err == nil {
			t.Errorf("store %d is made", i)
		}
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	f := NewFormat(brand.Brand{})
	secret := testkit.Must(f.parse(known))(b)
	d := &Directory{cfg: DirectoryConfig{Format: f, Clock: time.Now}, cache: newCache(time.Hour, time.Hour, 10)}
	now := time.Now()
	d.cache.confirm(now, nil, true)
	d.cache.put(secret.Hash(), &entry{key: &Key{}, readAt: now}, 1, now)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := d.Authenticate(context.Background(), known); err != nil {
				panic(fmt.Sprint("not admitted: ", err))
			}
		}
	})
}
