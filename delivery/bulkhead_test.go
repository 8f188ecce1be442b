package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestBoundOfMessagesUnderWay counts the requests that are open at once, after
// an outage with a backlog.
func TestBoundOfMessagesUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	var (
		mu         sync.Mutex
		now, most  int
		first      []string
		firstCount = 10
	)
	rc := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		if len(first) < firstCount {
			first = append(first, r.Header.Get("Service-Event-Id"))
		}
		mu.Unlock()
		<-time.After(10 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
	})
	must(b.store.Create(t.Context(), workspace, rc.URL, []string{"all"}))(t)
	ids := b.append("invoice.reversed", 300)
	b.engine()
	rc.wait(t, 300)
	mu.Lock()
	defer mu.Unlock()
	if most > 10 || most < 8 {
		t.Errorf("%d messages were under way at once, want at most 10", most)
	}
	slices.Sort(first)
	if want := slices.Sorted(slices.Values(ids[:firstCount])); !slices.Equal(first, want) {
		t.Errorf("the first messages were not the first in the log")
	}
}

// TestHangingReceiversDelayNobody has most receivers hang: the others get
// theirs as if they were alone.
func TestHangingReceiversDelayNobody(t *testing.T) {
	b := setup(t, Settings{Timeout: 5 * time.Second})
	const good, hanging, rounds = 5, 45, 60
	hang := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	fine := newReceiver(t, nil)
	hook := func(i int, url string) string {
		ws := fmt.Sprintf("w%d", i)
		if _, err := b.pool.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, ws); err != nil {
			t.Fatal(err)
		}
		must(b.store.Create(t.Context(), ws, url, []string{"all"}))(t)
		return ws
	}
	var healthy []string
	for i := range good {
		healthy = append(healthy, hook(i, fine.URL))
	}
	b.engine(func(c *Config) { c.Limit = 500 })
	measure := func() (p50, p99 time.Duration) {
		var took []time.Duration
		for i := range rounds {
			n := len(fine.all())
			began := time.Now()
			b.appendTo(healthy[i%good], "invoice.reversed", 1)
			got := fine.wait(t, n+1)
			took = append(took, got[n].at.Sub(began))
		}
		slices.Sort(took)
		return took[rounds/2], took[rounds-2]
	}
	measure() // connections are made
	alone, alone99 := measure()
	for i := range hanging {
		ws := hook(100+i, hang.URL)
		b.appendTo(ws, "invoice.reversed", 40)
	}
	hang.wait(t, hanging*10)
	beside, beside99 := measure()
	t.Logf("alone p50 %v p99 %v, beside %d hanging ones p50 %v p99 %v", alone, alone99, hanging, beside, beside99)
	// A tenth more is the aim; on a machine that others use too, the bound here
	// only tells a delay by the hanging ones, which would be seconds.
	if beside > 2*alone+10*time.Millisecond || beside99 > 4*alone99+50*time.Millisecond {
		t.Errorf("alone p50 %v p99 %v, beside hanging ones p50 %v p99 %v", alone, alone99, beside, beside99)
	}
}

// TestInstancesShareAndTakeOver runs two engines: both get work, and when one
// goes without a word the other takes its part over.
func TestInstancesShareAndTakeOver(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Timeout: 300 * time.Millisecond})
	rc := newReceiver(t, nil)
	const spaces = 10
	var names []string
	for i := range spaces {
		ws := fmt.Sprintf("w%d", i)
		names = append(names, ws)
		if _, err := b.pool.Exec(t.Context(), `SELECT workspace_create($1, $1, now())`, ws); err != nil {
			t.Fatal(err)
		}
		must(b.store.Create(t.Context(), ws, rc.URL, []string{"all"}))(t)
	}
	quick := func(c *Config) { c.Lease, c.Sweep, c.Idle = 900*time.Millisecond, 50*time.Millisecond, time.Minute }
	one, _ := b.engine(quick)
	sent := 0
	all := func() {
		for _, ws := range names {
			b.appendTo(ws, "invoice.reversed", 1)
			sent++
		}
		rc.wait(t, sent)
	}
	all()
	two, stopTwo := b.engine(quick)
	eventually(t, func() error {
		all()
		if a, b := one.desk.load().lanes, two.desk.load().lanes; a+b != spaces || a < 3 || b < 3 {
			return fmt.Errorf("%d and %d webhooks are held, want even shares of %d", a, b, spaces)
		}
		return nil
	})
	stopTwo()
	all()
	if extra := len(rc.all()) - sent; extra != 0 {
		t.Errorf("%d messages more than events", extra)
	}
}

// TestLongTransactionCostsLittle delivers while a report keeps a snapshot open.
func TestLongTransactionCostsLittle(t *testing.T) {
	const events = 2000
	rate := func(report bool) float64 {
		b := setup(t, Settings{})
		s, n := sink(t)
		for i := range 2 {
			must(b.store.Create(t.Context(), workspace, fmt.Sprintf("%s/%d", s.URL, i), []string{"all"}))(t)
		}
		b.append("invoice.reversed", events)
		if report {
			conn := must(pgx.ConnectConfig(t.Context(), b.pool.Config().ConnConfig))(t)
			defer conn.Close(t.Context())
			tx := must(conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
			if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM webhook_delivery, webhook_cursor`); err != nil {
				t.Fatal(err)
			}
		}
		pool, _ := b.counting()
		began := time.Now()
		_, stop := b.engine(func(c *Config) { c.Pool = pool })
		eventually(t, func() error {
			if got := n.Load(); got < 2*events {
				return fmt.Errorf("%d delivered", got)
			}
			return nil
		})
		took := time.Since(began)
		stop()
		pool.Close()
		// What such a transaction makes expensive is rows that change often:
		// every version of them stays. There are none.
		eventually(t, func() error {
			var changes, inserted int
			err := b.pool.QueryRow(t.Context(), `
				SELECT sum(n_tup_upd), sum(n_tup_ins) FROM pg_stat_user_tables
				 WHERE relname LIKE 'webhook%'`).Scan(&changes, &inserted)
			if most := 20 + 10*int(took.Seconds()+1); err == nil && (changes > most || inserted < 2*events) {
				err = fmt.Errorf("%d changes of rows, want at most %d", changes, most)
			}
			return err
		})
		return 2 * events / took.Seconds()
	}
	rate(false)
	best := [2]float64{}
	for range 2 {
		best[0], best[1] = max(best[0], rate(false)), max(best[1], rate(true))
	}
	t.Logf("%.0f/s, beside a long transaction %.0f/s", best[0], best[1])
	// A tenth is the aim; the bound leaves room for a machine that others use.
	if best[1] < 0.5*best[0] {
		t.Errorf("%.0f/s, beside a long transaction only %.0f/s", best[0], best[1])
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
	tx := must(b.pool.Begin(t.Context()))(t)
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
	w := must(b.store.Create(t.Context(), workspace, "https://example.com", []string{"all"}))(t)
	must(b.store.RotateSecret(t.Context(), w.ID))(t)
	both := must(NewKeyring("fedcba9876543210, 0123456789abcdef"))(t)
	n, err := (&rows{pool: b.pool, keyring: both}).reseal(t.Context())
	if n != 1 || err != nil {
		t.Errorf("%d sealed anew, %v", n, err)
	}
	alone := &rows{pool: b.pool, keyring: must(NewKeyring("fedcba9876543210"))(t)}
	k := key{workspace, w.ID}
	all := must(alone.load(t.Context(), []key{k}))(t)
	if h := all[k].hook; h.broken != nil || h.oldSecret != w.Secret {
		t.Errorf("after it: %v, old secret %q", h.broken, h.oldSecret)
	}
	before := must((&rows{pool: b.pool, keyring: b.keyring}).load(t.Context(), []key{k}))(t)
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
