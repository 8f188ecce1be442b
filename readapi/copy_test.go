//go:build full && unix

package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// copied is a stand whose database has a standby. Its own API reads from the primary alone.
type copied struct {
	*stand

	standby *replication.Server
	copy    readapi.Copy
}

// newCopied makes the stand. Its Copy may be behind for any time.
func newCopied(t *testing.T) *copied {
	t.Helper()
	primary := replication.Start(t)
	if _, err := migrations.Up(t.Context(), primary.URL()); err != nil {
		t.Fatal(err)
	}
	c := &copied{stand: newStandAt(t, primary.URL()), standby: primary.Replica()}
	c.copy = readapi.Copy{Usable: func() bool { return true }, Alive: context.Background}
	anyLag := func(context.Context, *pgx.Conn) (bool, error) { return true, nil }
	c.pools(func(o pg.Options) (testkit.DB, error) {
		o.Prepare = anyLag
		return pg.Open(t.Context(), c.standby.URL(), o)
	})
	return c
}

// pools opens those of the Copy.
func (c *copied) pools(open func(pg.Options) (testkit.DB, error)) {
	c.t.Helper()
	c.copy.Pool = testkit.Must(open(pg.Options{MaxConns: 8, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true}))(c.t)
	c.t.Cleanup(testkit.AsPool(c.copy.Pool).Close)
	c.copy.WholeLists = testkit.Must(open(pg.Options{MaxConns: 6, Settings: readapi.WholeListPoolSettings(time.Minute), CancelStatements: true}))(c.t)
	c.t.Cleanup(testkit.AsPool(c.copy.WholeLists).Close)
}

// replayed waits until the standby has all that the primary has now.
func (c *copied) replayed() {
	c.t.Helper()
	var end int64
	if err := c.pool.QueryRow(c.t.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&end); err != nil {
		c.t.Fatal(err)
	}
	testkit.Eventually(c.t, func() error {
		if at := pgserver.Query[int64](c.standby.Server, "feed", `SELECT (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint`); at < end {
			return fmt.Errorf("replayed %d of %d", at, end)
		}
		return nil
	})
}

// instance is another process on the same database, which reads from the Copy.
func (c *copied) instance() *reading {
	c.t.Helper()
	s := *c.stand
	i := &reading{stand: &s, metrics: prometheus.NewRegistry()}
	s.config.Copy, s.config.Timeout, s.config.Metrics = &c.copy, time.Minute, i.metrics
	s.api = testkit.Must(readapi.New(s.config))(c.t)
	runs(c.t, s.api.Run)
	s.server = serve(c.t, s.api, s.config.Logger)
	return i
}

// reading is an instance with its metrics.
type reading struct {
	*stand

	metrics *prometheus.Registry
}

// fromCopy is how many requests were answered from the Copy, and passed how many it was passed
// over for, by reason.
func (i *reading) fromCopy() float64 { return i.count("ledgerfeed_api_copy_reads_total", "") }
func (i *reading) passed(reason string) float64 {
	return i.count("ledgerfeed_api_copy_passed_over_total", reason)
}

// count is a counter, by the value of its label.
func (i *reading) count(name, label string) (n float64) {
	i.t.Helper()
	for _, family := range testkit.Must(i.metrics.Gather())(i.t) {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[0].GetValue() == label {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// TestTheCopyAnswersAsThePrimary: every endpoint, in every form, byte for byte, and the
// primary is not asked.
func TestTheCopyAnswersAsThePrimary(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.clock.Set(r.clock.Now().Add(48 * time.Hour))
	r.append(history(t, "acme", 3, r.clock.Now(), 24*time.Hour, 300)...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	r.replayed()
	s := r.instance()
	asked := 0.0
	for range 2 { // uncached and cached
		for path := range endpoints() {
			for _, accept := range []string{"application/json", "text/csv", "application/x-ndjson"} {
				want, got := r.get(path, key, "Accept", accept), s.get(path, key, "Accept", accept)
				if got.header.Get("Log-Position") != "" && !strings.Contains(path, "/checkpoint") && !strings.Contains(path, "/tile/") {
					asked += 2
				}
				tag := got.header.Get("Etag")
				if got.status != 200 || !bytes.Equal(got.body, want.body) || tag != want.header.Get("Etag") || got.header.Get("Log-Position") != want.header.Get("Log-Position") {
					t.Errorf("%s as %s: %d %q %.200s\nwant %q %.200s", path, accept, got.status, tag, got.body, want.header.Get("Etag"), want.body)
				}
				if got := s.get(path, key, "Accept", accept, "If-None-Match", tag); got.status != http.StatusNotModified {
					t.Errorf("%s unchanged: %d", path, got.status)
				}
			}
		}
	}
	if n := s.fromCopy(); n != asked || s.passed("behind")+s.passed("failed")+s.passed("no_proof") > 0 {
		t.Errorf("%v of %v answers are those of the copy", n, asked)
	}
	if s.get("/v1/invoices/none", key).status != http.StatusNotFound {
		t.Error("an unknown id")
	}
}

// TestTheCopyIsBehind: a copy that lags answers what may be older, and nothing that must not:
// a cursor, an ETag, a position that another instance gave, a row that it does not have.
func TestTheCopyIsBehind(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.project("acme", 0)
	r.replayed()
	before := r.visible("acme")
	first := r.key("acme", allPermissions()...)
	tags := map[string]string{}
	for path := range waitable() {
		tags[path] = r.get(path, first).header.Get("Etag")
	}
	for path, entry := range waitable() {
		if path != "/v1/events" {
			r.append(strings.NewReplacer(`_1"`, `_9"`).Replace(entry))
		}
	}
	r.clock.Set(r.clock.Now().Add(48 * time.Hour))
	r.append(history(t, "acme", 3, r.clock.Now(), 24*time.Hour, 200)...)
	// The copy has the log, and not what was made of it: a cursor's mark is there.
	r.replayed()
	r.standby.Pause()
	r.append(objects("new")...)
	r.project("acme", 0)
	r.project("new", 0)
	key := r.key("acme", allPermissions()...) // keys are those of the primary
	at, old := strconv.FormatInt(r.visible("acme"), 10), strconv.FormatInt(before, 10)
	position := func(what string, got reply, status int, want string) {
		t.Helper()
		if got.status != status || got.header.Get("Log-Position") != want {
			t.Errorf("%s: %d at %q, want %d at %s: %.300s", what, got.status, got.header.Get("Log-Position"), status, want, got.body)
		}
	}
	s := r.instance()
	for path := range waitable() {
		position(path, s.get(path, key), 200, old)
		if path != "/v1/events" {
			page := r.get(path+"?limit=1", key)
			cursor := "limit=1&cursor=" + page.envelope(t).NextCursor
			got, want := s.get(path+"?"+cursor, key), r.get(path+"?"+cursor, key)
			position(path+" with a cursor", got, 200, at)
			if !bytes.Equal(got.body, want.body) {
				t.Errorf("%s with a cursor: %s, want %s", path, got.body, want.body)
			}
		}
		end := r.atEnd(path, "", key)
		got := s.get(end, key)
		position(path+" at its end", got, 200, at)
		if next := got.envelope(t).NextCursor; !strings.HasSuffix(end, next) {
			t.Errorf("%s goes on at another place: %s, was at %s", path, next, end)
		}
		position(path+" unchanged", s.get(path, key, "If-None-Match", r.get(path, key).header.Get("Etag")), 304, at)
		if path == "/v1/events" {
			continue
		}
		position(path+" changed", s.get(path, key, "If-None-Match", tags[path]), 200, at)
		position(path+" at least", s.get(path, key, "Log-Position-At-Least", at), 200, at)
	}
	for _, form := range []string{"text/csv", "application/x-ndjson"} {
		position("whole as "+form, s.get("/v1/clients", key, "Accept", form), 200, old)
		position("whole at least as "+form, s.get("/v1/clients", key, "Accept", form, "Log-Position-At-Least", at), 200, at)
	}
	position("a new row", s.get("/v1/contractors/co_9", key), 200, at)
	position("a row of a new workspace", s.get("/v1/clients/cl_1", r.key("new", allPermissions()...)), 200, strconv.FormatInt(r.visible("new"), 10))
	if s.fromCopy() == 0 || s.passed("behind") == 0 || s.passed("no_proof") == 0 {
		t.Errorf("%v answers of the copy, passed over %v times because it was behind, and %v times for a row that it does not have", s.fromCopy(), s.passed("behind"), s.passed("no_proof"))
	}
}

// TestReadBeside: what the console reads beside the API's answers comes from the copy where it
// shows enough, and else from the primary.
func TestReadBeside(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.project("acme", 0)
	r.replayed()
	reader := func() *readapi.Reader {
		cfg := r.config
		cfg.Copy = &r.copy
		return testkit.Must(readapi.NewReader(cfg))(t)
	}
	beside := func(from *readapi.Reader, workspaceID string, atLeast int64) (visible int64, onCopy bool) {
		t.Helper()
		if err := from.Beside(t.Context(), workspaceID, atLeast, func(ctx context.Context, pool pg.DB) error {
			return pool.QueryRow(ctx, `SELECT position, pg_is_in_recovery() FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`, workspaceID).Scan(&visible, &onCopy)
		}); err != nil {
			t.Fatal(err)
		}
		return visible, onCopy
	}
	check := func(what string, from *readapi.Reader, workspaceID string, atLeast, want int64, onCopy bool) {
		t.Helper()
		if visible, is := beside(from, workspaceID, atLeast); visible != want || is != onCopy {
			t.Errorf("%s: position %d, from the copy: %v; want %d, %v", what, visible, is, want, onCopy)
		}
	}
	before := r.visible("acme")
	seen := reader()
	check("at first", seen, "acme", 0, before, true)
	check("up to what is visible", seen, "acme", before, before, true)
	r.standby.Pause()
	for _, entry := range objects("acme") {
		r.append(strings.NewReplacer(`_1"`, `_9"`).Replace(entry))
	}
	r.append(objects("new")...)
	r.project("acme", 0)
	r.project("new", 0)
	now := r.visible("acme")
	check("what may be older", seen, "acme", before, before, true)
	check("what must not", seen, "acme", before+1, now, false)
	check("a new workspace", seen, "new", 0, r.visible("new"), false)
	failed := errors.New("no")
	if err := seen.Beside(t.Context(), "acme", 0, func(context.Context, pg.DB) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an error of the reading: %v", err)
	}
	r.standby.Resume()
	testkit.Eventually(t, func() error {
		if visible, onCopy := beside(seen, "acme", now); visible != now || !onCopy {
			return fmt.Errorf("position %d, from the copy: %v", visible, onCopy)
		}
		return nil
	})
	r.standby.Stop()
	check("without the copy", seen, "acme", 0, now, false)
}

// TestAWaitEndsWithWhatItWaitedFor: a request that waited is answered with what came, though
// the copy does not show it yet.
func TestAWaitEndsWithWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.project("acme", 0)
	r.replayed()
	key := r.key("acme", allPermissions()...)
	s := r.instance()
	for i, path := range []string{"/v1/events", "/v1/clients"} {
		end := r.atEnd(path, "", key)
		r.standby.Pause()
		answered := make(chan reply, 1)
		var wait sync.WaitGroup
		wait.Go(func() {
			if got, err := ask(t.Context(), s.server, http.MethodGet, end, key, "Prefer", "wait=30"); err == nil {
				answered <- got
			}
		})
		s.until(func() bool { changes, _ := s.api.Waits(); return changes == 1 })
		r.append(fmt.Sprintf(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_9%d","name":"New"}}`, i),
			`{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`)
		r.project("acme", 0)
		wait.Wait()
		if got := <-answered; got.status != 200 || len(got.envelope(t).Data) == 0 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		r.standby.Resume()
		r.replayed()
	}
}

// TestACopyThatFails: requests go on to the primary while the copy stands still, is too far
// behind or is stopped; none fails.
func TestACopyThatFails(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	from := testkit.Must(standby.New(standby.Config{URL: r.standby.URL(), Primary: r.pool, Logger: r.config.Logger}))(t)
	runs(t, from.Run)
	r.copy.Usable, r.copy.Alive = from.Usable, from.Alive
	r.pools(func(o pg.Options) (testkit.DB, error) { return from.Open(t.Context(), o) })
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	s := r.instance()
	used := func() {
		t.Helper()
		before := s.fromCopy()
		testkit.Eventually(t, func() error {
			if got := s.get("/v1/clients/cl_1", key); got.status != 200 || s.fromCopy() == before {
				return fmt.Errorf("%d, not from the copy: %s", got.status, from.State().Problem)
			}
			return nil
		})
	}
	all := func(what string) {
		t.Helper()
		for range 3 {
			for _, path := range []string{"/v1/clients", "/v1/clients/cl_1", "/v1/events"} {
				if got := s.get(path, key); got.status != 200 {
					t.Errorf("%s: %s: %d %s", what, path, got.status, got.body)
				}
			}
			if got := s.get("/v1/clients", key, "Accept", "text/csv"); got.status != 200 {
				t.Errorf("%s: a whole list: %d", what, got.status)
			}
		}
	}
	used()
	all("healthy")
	thaw := r.standby.Freeze()
	all("frozen")
	thaw()
	used()
	r.standby.Pause()
	r.append(strings.NewReplacer(`_1"`, `_9"`).Replace(objects("acme")[0]))
	testkit.Eventually(t, func() error {
		if problem := from.State().Problem; !strings.Contains(problem, "has not replayed") {
			return fmt.Errorf("the state: %q", problem)
		}
		return nil
	})
	before := s.fromCopy()
	all("behind")
	if s.fromCopy() != before {
		t.Error("read from a copy that is too far behind")
	}
	r.standby.Resume()
	used()
	r.standby.Stop()
	all("stopped")
	r.standby.Begin()
	used()
}

// TestACopyThatIsLostWhileItIsRead: the primary answers, though what ended was a statement that
// was cancelled.
func TestACopyThatIsLostWhileItIsRead(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	testkit.AsOwner(t, r.pool, `CREATE OR REPLACE FUNCTION log_position_since(w text, since timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS
		$$ BEGIN IF pg_is_in_recovery() THEN PERFORM pg_sleep(60); END IF; RETURN 0; END $$`)
	r.replayed()
	alive, lose := context.WithCancel(t.Context())
	r.copy.Alive = func() context.Context { return alive }
	s := r.instance()
	var wait sync.WaitGroup
	var got reply
	var failed error
	wait.Go(func() { got, failed = ask(t.Context(), s.server, http.MethodGet, "/v1/clients", key) })
	testkit.Eventually(t, func() error {
		if n := pgserver.Query[int](r.standby.Server, "feed", `SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep'`); n == 0 {
			return errors.New("nothing is read from the copy")
		}
		return nil
	})
	lose()
	wait.Wait()
	if failed != nil || got.status != 200 || s.passed("failed") != 1 {
		t.Errorf("%d %s, %v; passed over %v times", got.status, got.body, failed, s.passed("failed"))
	}
}

// TestConflictsWithRecovery: a statement that a standby ends because it must replay is run
// on the primary.
func TestConflictsWithRecovery(t *testing.T) {
	t.Parallel()
	r := newCopied(t)
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	// On the standby alone, pages take until they are ended.
	testkit.AsOwner(t, r.pool, `CREATE OR REPLACE FUNCTION log_position_since(w text, since timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS
		$$ BEGIN IF pg_is_in_recovery() THEN PERFORM pg_sleep(60); END IF; RETURN 0; END $$`)
	r.standby.Set("max_standby_streaming_delay", "0")
	r.replayed()
	s := r.instance()
	var wait sync.WaitGroup
	answered := make(chan reply, 1)
	wait.Go(func() {
		if got, err := ask(t.Context(), s.server, http.MethodGet, "/v1/clients", key); err == nil {
			answered <- got
		}
	})
	testkit.Eventually(t, func() error {
		if len(answered) > 0 {
			return nil
		}
		testkit.AsOwner(t, r.pool, `BEGIN; LOCK TABLE client IN ACCESS EXCLUSIVE MODE; COMMIT`)
		return fmt.Errorf("not answered: %v", s.passed("failed"))
	})
	wait.Wait()
	if got := <-answered; got.status != 200 || s.passed("failed") != 1 {
		t.Errorf("%d %s, passed over %v times", got.status, got.body, s.passed("failed"))
	}
}
