package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// gate is a receiver's handler that holds every request until it is opened, and
// counts those that are open at once.
type gate struct {
	mu        sync.Mutex
	now, most int
	first     []string // event ids, in order of arrival
	opened    chan struct{}
}

func (g *gate) hold(r *http.Request) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.first = append(g.first, r.Header.Get("Service-Event-Id"))
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

// full waits until as many requests are held as may be, and checks that the
// engine has no mind to start another.
func (g *gate) full(t *testing.T, e *Engine, bound int) {
	t.Helper()
	testkit.Eventually(t, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.now != bound {
			return fmt.Errorf("%d messages are under way, want %d", g.now, bound)
		}
		return nil
	})
	e.desk.mu.Lock()
	defer e.desk.mu.Unlock()
	for _, l := range e.desk.lanes {
		if l.startable(bound, time.Now()) || l.waiting() == 0 {
			t.Errorf("with %d under way, %d more wait, startable: %v", l.underWay, l.waiting(), l.startable(bound, time.Now()))
		}
	}
}

// TestBoundOfMessagesUnderWay counts the requests that are open at once, of a
// backlog and of retries that are all due together after an outage.
func TestBoundOfMessagesUnderWay(t *testing.T) {
	t.Parallel()
	const bound, events = 10, 300
	b := setup(t, Settings{})
	var down atomic.Bool
	g := &gate{opened: make(chan struct{})}
	rc := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, rc.URL, []string{"all"}))(t)
	ids := b.append("invoice.reversed", events)
	e, _ := b.engine()
	g.full(t, e, bound)
	down.Store(true)
	close(g.opened)
	rc.wait(t, events)
	g.mu.Lock()
	if want := slices.Sorted(slices.Values(ids[:bound])); !slices.Equal(slices.Sorted(slices.Values(g.first[:bound])), want) {
		t.Errorf("the first messages were not the first in the log")
	}
	g.mu.Unlock()
	testkit.Eventually(t, func() error { // all failed, and wait
		lag := testkit.Must(b.store.Status(t.Context(), workspace))(t)
		if lag[0].Waiting != events {
			return fmt.Errorf("%d wait, want %d", lag[0].Waiting, events)
		}
		return nil
	})
	down.Store(false)
	g.mu.Lock()
	g.opened = make(chan struct{})
	g.mu.Unlock()
	b.clock.Advance(2 * time.Minute)
	b.project(workspace)
	g.full(t, e, bound)
	close(g.opened)
	want := make([]State, events)
	for i := range want {
		want[i] = Succeeded
	}
	b.states(w.ID, want...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.most != bound {
		t.Errorf("%d messages were under way at once, want %d", g.most, bound)
	}
}

// TestHangingReceiversDelayNobody has most receivers hang, each with all the
// places it may take: the others get everything while none of those ends.
func TestHangingReceiversDelayNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Timeout: time.Minute})
	const good, hanging, bound, messages = 5, 45, 10, 500
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	var ended atomic.Int64
	hang := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		defer ended.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	fine := newReceiver(t, nil)
	hook := func(i int, url string) string {
		ws := fmt.Sprintf("w%d", i)
		b.hookIn(ws, url)
		return ws
	}
	var healthy []string
	for i := range good {
		healthy = append(healthy, hook(i, fine.URL))
	}
	e, _ := b.engine(func(c *Config) { c.Limit = (good + hanging) * bound })
	t.Cleanup(letGo) // before the engine stops, which waits for them
	for i := range hanging {
		b.appendTo(hook(100+i, hang.URL), "invoice.reversed", 4*bound)
	}
	hang.wait(t, hanging*bound)
	for i := range messages {
		b.appendTo(healthy[i%good], "invoice.reversed", 1)
		if i%20 == 0 {
			fine.wait(t, i+1) // now one at a time, now many
		}
	}
	fine.wait(t, messages)
	if n := ended.Load(); n != 0 {
		t.Errorf("%d attempts that hang ended meanwhile: the others may have waited for them", n)
	}
	if n := hang.count(); n != hanging*bound {
		t.Errorf("%d attempts hang, want %d", n, hanging*bound)
	}
	testkit.Eventually(t, func() error {
		if n := e.desk.load().underWay; n != hanging*bound {
			return fmt.Errorf("%d attempts are under way, want those %d that hang", n, hanging*bound)
		}
		return nil
	})
}

// TestSweepReadsForThoseWhoNeedIt: a webhook whose receiver hangs has something
// open in the database at every sweep, but nothing new to be read.
func TestSweepReadsForThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		what    string
		visible int64
		read    time.Time
		want    bool
	}{
		{"nothing new, read a moment ago", 7, now, false},
		{"a retry is due, read a moment ago", 0, now, false},
		{"a wake-up was lost", 8, now, true},
		{"not read for long", 7, now.Add(-rereadEvery), true},
	} {
		d := newDesk(time.Now, Policy{}, 10, 100, 1)
		l := newLane(key{"acme", "wh"})
		l.visible, l.read = 7, c.read
		d.lanes[l.key] = l
		if free := d.found([]candidate{{l.key, c.visible}, {key{"acme", "other"}, 1}}); free != 1 {
			t.Errorf("%s: %d are free, want 1", c.what, free)
		}
		if l.wanted != c.want {
			t.Errorf("%s: wanted %t", c.what, l.wanted)
		}
	}
}

// TestInstancesShare runs two engines and then four: each gets its part, and
// when all but one stop, that one does everything.
func TestInstancesShare(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Timeout: 2 * time.Second})
	rc := newReceiver(t, nil)
	const spaces = 12
	all, sent := b.oneForEach(rc, spaces)
	var (
		engines []*Engine
		stops   []func()
	)
	for _, n := range []int{1, 2, 4} {
		for len(engines) < n {
			e, stop := b.engine(func(c *Config) { c.Lease, c.Sweep = 4*time.Second, 50*time.Millisecond })
			engines, stops = append(engines, e), append(stops, stop)
		}
		testkit.Eventually(t, func() error {
			all()
			held, least := 0, spaces
			for _, e := range engines {
				held += e.desk.load().lanes
				least = min(least, e.desk.load().lanes)
			}
			if held != spaces || least < spaces/n-1 {
				return fmt.Errorf("%d engines hold %d webhooks, one of them %d, want even shares of %d", n, held, least, spaces)
			}
			return nil
		})
	}
	for _, stop := range stops[1:] {
		stop()
	}
	all()
	if extra := rc.count() - *sent; extra != 0 {
		t.Errorf("%d messages more than events", extra)
	}
}

// TestHistoryDaysComeAndGo keeps partitions for thirty days and gives way to a
// reader instead of making every insert wait.
func TestHistoryDaysComeAndGo(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	r := &rows{pool: b.pool, keyring: b.keyring}
	day0 := time.Date(2030, 5, 1, 9, 0, 0, 0, time.UTC)
	insert := func(at time.Time) {
		t.Helper()
		_, err := b.pool.Exec(t.Context(), `INSERT INTO webhook_delivery VALUES ('acme', 'wh', 1, $1, 'e', 't', 'succeeded', NULL, '[]')`, at)
		if err != nil {
			t.Fatal(err)
		}
	}
	insert(day0.Add(-29 * day)) // before there is a partition for it
	insert(day0)
	for d := range 40 {
		now := day0.Add(time.Duration(d) * day)
		if err := r.upkeep(t.Context(), now, 30*day); err != nil {
			t.Fatal(err)
		}
		insert(now.Add(time.Hour))
	}
	var rowsLeft, elsewhere, days int
	err := b.pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE tableoid = 'webhook_delivery_other'::regclass),
		(SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook_delivery'::regclass) FROM webhook_delivery`).Scan(&rowsLeft, &elsewhere, &days)
	if err != nil || rowsLeft != 31 || elsewhere != 0 || days != 30+1+7+1 {
		t.Errorf("%d rows, %d of them without a day, %d partitions, %v", rowsLeft, elsewhere, days, err)
	}
	tx := testkit.Must(b.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM webhook_delivery`); err != nil {
		t.Fatal(err)
	}
	if err := r.upkeep(t.Context(), day0.Add(60*day), 30*day); err == nil || !lockBusy(err) {
		t.Errorf("beside a long reader: %v", err)
	}
	insert(day0.Add(60 * day))
}

// TestSecretsAreSealedAnew takes an old key out of use.
func TestSecretsAreSealedAnew(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, "https://example.com", []string{"all"}))(t)
	testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	both := testkit.Must(NewKeyring("fedcba9876543210, 0123456789abcdef"))(t)
	n, err := (&rows{pool: b.pool, keyring: both}).reseal(t.Context())
	if n != 1 || err != nil {
		t.Errorf("%d sealed anew, %v", n, err)
	}
	alone := &rows{pool: b.pool, keyring: testkit.Must(NewKeyring("fedcba9876543210"))(t)}
	k := key{workspace, w.ID}
	all := testkit.Must(alone.load(t.Context(), []key{k}))(t)
	if h := all[k].hook; h.broken != nil || h.oldSecret != w.Secret {
		t.Errorf("after it: %v, old secret %q", h.broken, h.oldSecret)
	}
	before := testkit.Must((&rows{pool: b.pool, keyring: b.keyring}).load(t.Context(), []key{k}))(t)
	if before[k].hook.broken == nil {
		t.Error("the old key still opens it")
	}
	if _, err := both.open("other", w.ID, both.seal(workspace, w.ID, "x")); err == nil {
		t.Error("a sealed secret opens in another workspace")
	}
	if _, err := NewKeyring("short"); err == nil {
		t.Error("a short key was taken")
	}
}
