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

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/replication"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// replicated is a stand whose database has two replicas. Its own API reads from the
// primary alone.
type replicated struct {
	*stand

	set      *replica.Set
	metrics  *prometheus.Registry
	servers  []*replication.Server
	replicas []readapi.Replica
}

func newReplicated(t *testing.T, maxLag time.Duration) *replicated {
	t.Helper()
	primary := replication.Start(t)
	if _, err := migrations.Up(t.Context(), primary.URL()); err != nil {
		t.Fatal(err)
	}
	r := &replicated{stand: newStandAt(t, primary.URL()), metrics: prometheus.NewRegistry()}
	urls := ""
	for range 2 {
		r.servers = append(r.servers, primary.Replica())
		urls += r.servers[len(r.servers)-1].URL() + " "
	}
	r.set = testkit.Must(replica.New(replica.Config{
		Primary: r.pool, Addresses: testkit.Must(replica.ParseAddresses(urls))(t), Logger: r.config.Logger, MaxLag: maxLag, Metrics: r.metrics,
	}))(t)
	runs(t, r.set.Run)
	for _, one := range r.set.Servers() {
		pages := testkit.Must(one.Open(t.Context(), pg.Options{MaxConns: 8, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true}))(t)
		t.Cleanup(pages.Close)
		lists := testkit.Must(one.Open(t.Context(), pg.Options{MaxConns: 6, Settings: readapi.WholeListPoolSettings(time.Minute), CancelStatements: true}))(t)
		t.Cleanup(lists.Close)
		r.replicas = append(r.replicas, readapi.Replica{Server: one, Pool: pages, WholeLists: lists})
	}
	r.used()
	return r
}

// used waits until both replicas are read from.
func (r *replicated) used() {
	r.t.Helper()
	testkit.Eventually(r.t, func() error {
		for _, one := range r.set.Servers() {
			if !one.Usable() {
				return fmt.Errorf("%+v", r.set.States())
			}
		}
		return nil
	})
}

// instance is another process on the same database, which reads from the replicas and has
// answered nothing yet.
func (r *replicated) instance() *stand {
	r.t.Helper()
	s := *r.stand
	s.config.Replicas, s.config.ReplicaSet, s.config.Timeout = r.replicas, r.set, time.Minute
	s.api = testkit.Must(readapi.New(s.config))(r.t)
	runs(r.t, s.api.Run)
	s.server = serve(r.t, s.api, s.config.Logger)
	return &s
}

// count is a counter, by the value of its label.
func (r *replicated) count(name, label string) (n float64) {
	r.t.Helper()
	for _, family := range testkit.Must(r.metrics.Gather())(r.t) {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// both does something to both replicas.
func (r *replicated) both(do func(*replication.Server)) {
	for _, s := range r.servers {
		do(s)
	}
}

// TestReplicasAnswerAsThePrimary: every endpoint, in every form, byte for byte, and the
// primary is not asked.
func TestReplicasAnswerAsThePrimary(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Minute)
	r.append(objects("acme")...)
	r.clock.Set(r.clock.Now().Add(48 * time.Hour))
	r.append(history(t, "acme", 3, r.clock.Now(), 24*time.Hour, 300)...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	if err := r.set.Await(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	s := r.instance()
	for range 4 { // both replicas, uncached and cached
		for path := range endpoints() {
			for _, accept := range []string{"application/json", "text/csv", "application/x-ndjson"} {
				want, got := r.get(path, key, "Accept", accept), s.get(path, key, "Accept", accept)
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
	if n := r.count("ledgerfeed_replica_reads_total", replica.Primary); n != 0 {
		t.Errorf("%v answers are the primary's", n)
	}
	for _, one := range r.set.Servers() {
		if n := r.count("ledgerfeed_replica_reads_total", one.Name); n < 100 {
			t.Errorf("%v answers are those of %s", n, one.Name)
		}
	}
	if s.get("/v1/invoices/none", key).status != http.StatusNotFound {
		t.Error("an unknown id")
	}
}

// TestReplicasBehind: replicas that lag answer what may be older, and nothing that must not:
// a cursor, an ETag, a position that another instance gave, a row that they do not have.
func TestReplicasBehind(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Hour)
	r.append(objects("acme")...)
	r.project("acme", 0)
	if err := r.set.Await(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
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
	// The replicas have the log, and not what was made of it: a cursor's mark is on them.
	if err := r.set.Await(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.both((*replication.Server).Pause)
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
	for path := range waitable() {
		if path != "/v1/events" { // these wait for the replicas
			position(path, r.instance().get(path, key), 200, old)
			page := r.get(path+"?limit=1", key)
			cursor := "limit=1&cursor=" + page.envelope(t).NextCursor
			got, want := r.instance().get(path+"?"+cursor, key), r.get(path+"?"+cursor, key)
			position(path+" with a cursor", got, 200, at)
			if !bytes.Equal(got.body, want.body) {
				t.Errorf("%s with a cursor: %s, want %s", path, got.body, want.body)
			}
		}
		end := r.atEnd(path, "", key)
		got := r.instance().get(end, key)
		position(path+" at its end", got, 200, at)
		if next := got.envelope(t).NextCursor; !strings.HasSuffix(end, next) {
			t.Errorf("%s goes on at another place: %s, was at %s", path, next, end)
		}
		position(path+" unchanged", r.instance().get(path, key, "If-None-Match", r.get(path, key).header.Get("Etag")), 304, at)
		if path == "/v1/events" {
			continue
		}
		position(path+" changed", r.instance().get(path, key, "If-None-Match", tags[path]), 200, at)
		s := r.instance()
		position(path+" at least", s.get(path, key, "Log-Position-At-Least", at), 200, at)
		position(path+" afterwards", s.get(path, key), 200, at)
	}
	for _, form := range []string{"text/csv", "application/x-ndjson"} {
		position("whole as "+form, r.instance().get("/v1/clients", key, "Accept", form), 200, old)
		position("whole at least as "+form, r.instance().get("/v1/clients", key, "Accept", form, "Log-Position-At-Least", at), 200, at)
	}
	position("a new row", r.instance().get("/v1/contractors/co_9", key), 200, at)
	position("a row of a new workspace", r.instance().get("/v1/clients/cl_1", r.key("new", allPermissions()...)), 200, strconv.FormatInt(r.visible("new"), 10))
	if n := r.count("ledgerfeed_replica_passed_over_total", replica.PassedBehind); n == 0 {
		t.Error("no replica was passed over")
	}
}

// TestReadBeside: what the console reads beside the API's answers comes from replicas that show
// enough, not from one that knows less than was asked for or answered before, and from the
// primary where none is left.
func TestReadBeside(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Hour)
	r.append(objects("acme")...)
	r.project("acme", 0)
	if err := r.set.Await(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	reader := func() *readapi.Reader {
		cfg := r.config
		cfg.Replicas, cfg.ReplicaSet = r.replicas, r.set
		return testkit.Must(readapi.NewReader(cfg))(t)
	}
	beside := func(from *readapi.Reader, workspaceID string, atLeast int64) (visible int64, onReplica bool) {
		t.Helper()
		if err := from.Beside(t.Context(), workspaceID, atLeast, func(ctx context.Context, pool *pgxpool.Pool) error {
			return pool.QueryRow(ctx, `SELECT position, pg_is_in_recovery() FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`, workspaceID).Scan(&visible, &onReplica)
		}); err != nil {
			t.Fatal(err)
		}
		return visible, onReplica
	}
	check := func(what string, from *readapi.Reader, workspaceID string, atLeast, want int64, onReplica bool) {
		t.Helper()
		if visible, is := beside(from, workspaceID, atLeast); visible != want || is != onReplica {
			t.Errorf("%s: position %d, from a replica: %v; want %d, %v", what, visible, is, want, onReplica)
		}
	}
	before := r.visible("acme")
	seen := reader()
	check("at first", seen, "acme", 0, before, true)
	check("up to what is visible", seen, "acme", before, before, true)
	r.both((*replication.Server).Pause)
	for _, entry := range objects("acme") {
		r.append(strings.NewReplacer(`_1"`, `_9"`).Replace(entry))
	}
	r.append(objects("new")...)
	r.project("acme", 0)
	r.project("new", 0)
	now := r.visible("acme")
	check("what may be older", seen, "acme", before, before, true)
	check("what must not", seen, "acme", before+1, now, false)
	check("after that was answered", seen, "acme", 0, now, false)
	check("in another process", reader(), "acme", 0, before, true)
	check("a new workspace", seen, "new", 0, r.visible("new"), false)
	failed := errors.New("no")
	if err := seen.Beside(t.Context(), "acme", 0, func(context.Context, *pgxpool.Pool) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an error of the reading: %v", err)
	}
	r.both((*replication.Server).Resume)
	testkit.Eventually(t, func() error {
		if visible, onReplica := beside(seen, "acme", now); visible != now || !onReplica {
			return fmt.Errorf("position %d, from a replica: %v", visible, onReplica)
		}
		return nil
	})
	r.both((*replication.Server).Stop)
	check("without replicas", seen, "acme", 0, now, false)
}

// TestWhoIsToldWaitsForReplicas: a page of events, and an answer that was waited for, come
// when all replicas have replayed what they tell, and not before.
func TestWhoIsToldWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Hour)
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	for name, headers := range map[string][]string{"events": nil, "a wait": {"Prefer", "wait=30"}} {
		s := r.instance()
		path := "/v1/events"
		if headers != nil {
			path = "/v1/clients"
		}
		end := r.atEnd(path, "", key)
		s.get(end, key)
		r.servers[1].Pause()
		var wait sync.WaitGroup
		answered := make(chan reply, 1)
		begin := func(headers ...string) {
			wait.Go(func() {
				if got, err := ask(t.Context(), s.server, http.MethodGet, end, key, headers...); err == nil {
					answered <- got
				}
			})
		}
		if headers != nil {
			begin(headers...)
			s.until(func() bool { changes, _ := s.api.Waits(); return changes == 1 })
		}
		r.append(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_`+strconv.Itoa(len(name))+`","name":"Told"}}`,
			`{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`)
		r.project("acme", 0)
		if headers == nil { // of what is new, which a replica may not show in the first moment
			begin("Log-Position-At-Least", strconv.FormatInt(r.visible("acme"), 10))
		}
		testkit.Throughout(t, 300*time.Millisecond, func() error {
			if len(answered) > 0 {
				return fmt.Errorf("%s: told of what a replica does not show", name)
			}
			return nil
		})
		r.servers[1].Resume()
		wait.Wait()
		if got := <-answered; got.status != 200 || len(got.envelope(t).Data) == 0 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		for range 4 { // each replica, asked by others
			if got := r.instance().get("/v1/clients/cl_"+strconv.Itoa(len(name)), key); got.status != 200 {
				t.Errorf("%s: the row is not there: %d", name, got.status)
			}
		}
	}
}

// TestReplicasThatFail: requests go on to another server while a replica stands still, is
// stopped, or ends their statements; none fails.
func TestReplicasThatFail(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Second)
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	s := r.instance()
	all := func(what string) {
		t.Helper()
		for range 6 {
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
	all("healthy")
	thaw := r.servers[0].Freeze()
	all("frozen")
	thaw()
	r.used()
	r.servers[1].Stop()
	all("stopped")
	r.servers[1].Begin()
	r.used()
	all("back")
	r.both((*replication.Server).Stop)
	all("both stopped")
	if n := r.count("ledgerfeed_replica_reads_total", replica.Primary); n == 0 {
		t.Error("the primary did not answer")
	}
}

// TestConflictsWithRecovery: a statement that a replica ends because it must replay is run
// on the primary.
func TestConflictsWithRecovery(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, time.Minute)
	r.append(objects("acme")...)
	r.project("acme", 0)
	key := r.key("acme", allPermissions()...)
	// On replicas alone, pages take until they are ended.
	testkit.AsOwner(t, r.pool, `CREATE OR REPLACE FUNCTION log_position_since(w text, since timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS
		$$ BEGIN IF pg_is_in_recovery() THEN PERFORM pg_sleep(60); END IF; RETURN 0; END $$`)
	r.both(func(s *replication.Server) {
		s.Set("max_standby_streaming_delay", "0")
	})
	if err := r.set.Await(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
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
		return fmt.Errorf("not answered: %v", r.count("ledgerfeed_replica_passed_over_total", replica.PassedFailed))
	})
	wait.Wait()
	if got := <-answered; got.status != 200 || r.count("ledgerfeed_replica_passed_over_total", replica.PassedFailed) != 2 {
		t.Errorf("%d %s, passed over %v times", got.status, got.body, r.count("ledgerfeed_replica_passed_over_total", replica.PassedFailed))
	}
}
