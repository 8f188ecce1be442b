package access

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// network lets a test take the database away: connections break and new ones are
// refused.
type network struct {
	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

var errAway = errors.New("the network is away")

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, errAway
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err == nil {
		n.conns[conn] = true
	}
	return conn, err
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
	if away {
		for conn := range n.conns {
			_ = conn.Close() // breaking it is the point
		}
		clear(n.conns)
	}
}

// pool is a pool to the database of b whose connections go through n.
func (n *network) pool(t *testing.T, b *bundle) testkit.DB {
	t.Helper()
	cfg := b.pool.Config()
	cfg.ConnConfig.DialFunc = n.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// running is a Directory whose Run polls by the real clock.
type running struct {
	*watched
	polls chan error
}

func (b *bundle) run(t *testing.T, change ...func(*DirectoryConfig)) *running {
	t.Helper()
	polls := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	d := b.directory(t, append(change, func(cfg *DirectoryConfig) {
		cfg.Clock = time.Now
		cfg.OnPoll = func(err error) {
			select {
			case polls <- err:
			case <-ctx.Done():
			}
		}
		cfg.PollEvery = 10 * time.Millisecond
	})...)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &running{d, polls}
}

// nextPoll waits for two whole polls that begin after the call, of which one may be left
// out because nobody has asked; the one that is reported next may have begun before.
func (r *running) nextPoll() error {
	<-r.polls
	<-r.polls
	return errors.Join(<-r.polls, <-r.polls)
}

// An instance refuses a key well within a second after another instance revoked it.
func TestRunSeesARevocationInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.run(t)
	made, secret := b.create(t)
	if err := d.nextPoll(); err != nil {
		t.Fatal(err)
	}
	d.admits(t, secret)
	if got := d.Stats(); got.Cached != 1 || !got.Fresh {
		t.Fatalf("not cached: %+v", got)
	}
	b.revoke(t, made.ID)
	revoked := time.Now()
	for {
		asked := time.Now()
		if _, err := d.Authenticate(t.Context(), secret.Reveal()); err != nil {
			break
		}
		if late := asked.Sub(revoked); late >= time.Second {
			t.Fatalf("admitted %v after the revocation", late)
		}
		<-d.polls
	}
	d.refuses(t, secret, ReasonRevoked)
}

// Without the database, cached keys are admitted as long as the cache is trusted, and
// then none; with the database back, keys are admitted as before.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := &network{conns: map[net.Conn]bool{}}
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.Pool = n.pool(t, b) })
	made, secret := b.create(t)
	d.mustPoll(t)
	d.admits(t, secret)

	n.set(true)
	if err := d.poll(t.Context(), d.poller); err == nil {
		t.Fatal("the poll works without the database")
	}
	b.clock.Advance(trustFor - 1)
	d.admits(t, secret)
	b.clock.Advance(1)
	_, err := d.Authenticate(t.Context(), secret.Reveal())
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused) {
		t.Fatalf("with the database away: %v", err)
	}
	if _, err := d.Authenticate(t.Context(), "nonsense"); !errors.Is(err, ErrRefused) {
		t.Errorf("what is no key needs no database: %v", err)
	}

	b.revoke(t, made.ID)
	n.set(false)
	d.refuses(t, secret, ReasonRevoked)
	d.mustPoll(t)
	d.refuses(t, secret, ReasonRevoked)
	if !d.Stats().Fresh {
		t.Error("not fresh after the poll")
	}
}

// While nobody asks for a key, every poll during an outage fails. A skipped poll would end the
// outage in the log.
func TestNoPollIsSkippedDuringAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := &network{conns: map[net.Conn]bool{}}
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.Pool = n.pool(t, b) })
	_, secret := b.create(t)
	d.mustPoll(t)
	d.admits(t, secret)
	n.set(true)
	for i := range 5 {
		if err := d.poll(t.Context(), d.poller); err == nil {
			t.Fatalf("poll %d of the outage succeeds", i+1)
		}
	}
	n.set(false)
	d.mustPoll(t)
	if !d.Stats().Fresh {
		t.Error("not fresh after the outage")
	}
}

// Run survives an outage, and logs its beginning and its end once.
func TestRunThroughAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := &network{conns: map[net.Conn]bool{}}
	var log testkit.Buffer
	d := b.run(t, func(cfg *DirectoryConfig) {
		cfg.Pool = n.pool(t, b)
		cfg.Log = log.Logger()
	})
	_, secret := b.create(t)
	if err := d.nextPoll(); err != nil {
		t.Fatal(err)
	}
	d.admits(t, secret)
	n.set(true)
	if err := d.nextPoll(); err == nil {
		t.Fatal("the poll works without the database")
	}
	n.set(false)
	if err := d.nextPoll(); err != nil {
		t.Fatalf("poll after the outage: %v", err)
	}
	d.admits(t, secret)
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || strings.Count(got, "level=INFO") != 1 {
		t.Errorf("logged:\n%s", got)
	}
}

// The Directory polls even when requests hold all other connections of the pool.
func TestPollsHaveTheirOwnConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := testkit.Must(pg.Open(t.Context(), b.pool.Config().ConnString(), pg.Options{MaxConns: 3}))(t)
	t.Cleanup(pool.Close)
	d := b.directory(t, func(cfg *DirectoryConfig) { cfg.Pool = pool.NewShare(pg.ShareOptions{Least: 1, Most: 1}) })
	d.mustPoll(t)
	for range 2 {
		conn := testkit.Must(pool.Acquire(t.Context()))(t)
		t.Cleanup(conn.Release)
	}
	d.mustPoll(t)
	if got := pool.Use(); got.Used != 2 {
		t.Errorf("%d connections are taken beside that of polls", got.Used)
	}
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.run(t)
	if err := d.nextPoll(); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err == nil {
		t.Error("a second Run ran beside the first")
	}
}

// Starting and stopping, however early the stop, leaves no goroutine and no
// connection behind, and the Directory can be run again.
func TestRunStartStop(t *testing.T) {
	b := setup(t)
	ignore := goleak.IgnoreCurrent()
	d := b.directory(t)
	_, secret := b.create(t)
	for i := range 30 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		if i%3 > 0 {
			d.admits(t, secret)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	b.pool.Close() // waits for connections that were not given back
	goleak.VerifyNone(t, ignore)
}

// A revision row that is missing, or locked by a transaction that does not commit, makes
// no instance miss a change of a key.
func TestRevisionRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	made, secret := b.create(t)
	d.mustPoll(t)
	d.admits(t, secret)

	// A change that committed after one with a higher revision would be missed. It cannot
	// happen: the second waits for the first.
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := BumpRevision(t.Context(), tx, "globex"); err != nil {
		t.Fatal(err)
	}
	revoked := make(chan error, 1)
	go func() {
		_, err := b.store.Revoke(context.WithoutCancel(t.Context()), "acme", made.ID)
		revoked <- err
	}()
	d.mustPoll(t)
	d.admits(t, secret)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
	d.mustPoll(t)
	d.refuses(t, secret, ReasonRevoked)

	b.exec(t, `DELETE FROM access_revision`)
	if err := d.poll(t.Context(), d.poller); err == nil {
		t.Error("the poll works without the row")
	}
	other, _ := b.create(t)
	if _, err := b.store.Revoke(t.Context(), "acme", other.ID); err == nil {
		t.Error("a key is revoked, and the instances would not see it")
	}
}

// While nobody asks for keys, every second poll is left out; a request that comes then
// learns of a revocation at once, because the cache is not asked.
func TestIdlePolls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.directory(t)
	made, secret := b.create(t)
	d.mustPoll(t)
	d.admits(t, secret)
	d.mustPoll(t)
	seen := d.poller.seen
	b.revoke(t, made.ID)
	d.mustPoll(t)
	if d.poller.seen != seen {
		t.Error("a poll was not left out, though nobody had asked")
	}
	d.refuses(t, secret, ReasonRevoked)
	for range 2 { // the first, because of the request; the second, because another was left out
		other, _ := b.create(t)
		b.revoke(t, other.ID)
		seen = d.poller.seen
		d.mustPoll(t)
		if d.poller.seen == seen {
			t.Error("a poll was left out")
		}
		d.mustPoll(t)
	}
}
