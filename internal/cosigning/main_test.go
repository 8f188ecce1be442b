package cosigning_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/cosigning"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

const host = "api.example.com"

// bench is a log with its trees, and what has them cosigned.
type bench struct {
	t        *testing.T
	pool     testkit.DB
	log      *eventlog.Log
	notifier *eventlog.Notifier
	logged   *testkit.Buffer
	keys     *signingkey.Keys
	clock    *testkit.Clock // of the Gatherer
	metrics  *prometheus.Registry
	appended int
}

func setup(t *testing.T, keys *signingkey.Keys) *bench {
	t.Helper()
	b := &bench{t: t, keys: keys, logged: &testkit.Buffer{}, clock: testkit.RunningClock(), pool: testkit.OpenPool(t, testkit.NewDatabase(t), 2*eventtree.Connections+4)}
	b.notifier = eventlog.NewNotifier(b.pool, b.logged.Logger())
	b.log = testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: time.Now}))(t)
	return b
}

func newKeys(t *testing.T) *signingkey.Keys {
	t.Helper()
	return testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(rand.Reader))(t)))(t)
}

// append appends events to a workspace, a third of them payouts, and makes them visible.
func (b *bench) append(workspaceID string, count int) {
	b.t.Helper()
	for range count {
		b.appended++
		typ, data := "invoice.reversed", fmt.Sprintf(`{"invoice_id":"in_%d"}`, b.appended)
		if b.appended%3 == 0 {
			typ, data = domain.TypePayoutPaid, fmt.Sprintf(`{"payment_id":"pm_%d","contractor_id":"co_1","amount":"1.00","currency":"EUR","source":"x"}`, b.appended)
		}
		d := testkit.Must(domain.NewDraft(workspaceID, typ, []byte(data)))(b.t)
		testkit.Must(b.log.Append(b.t.Context(), d))(b.t)
	}
	testkit.Must(b.pool.Exec(b.t.Context(), `UPDATE log_checkpoint c SET position = h.position, moved_at = now() FROM log_head h
	         WHERE h.workspace_id = c.workspace_id AND c.workspace_id = $1 AND c.consumer = 'read_models'`, workspaceID))(b.t)
	b.notifier.Notify(eventlog.TopicProjected, workspaceID)
}

// build builds trees until the test ends; the gatherer hears of what grows, unless it is nil.
func (b *bench) build(g *cosigning.Gatherer) {
	b.t.Helper()
	cfg := eventtree.BuilderConfig{Pool: b.pool, Notifier: b.notifier, Clock: time.Now, Logger: b.logged.Logger(), Gather: time.Millisecond, Sweep: 20 * time.Millisecond}
	if g != nil {
		cfg.Grown = g.Grown
	}
	b.run(testkit.Must(eventtree.NewBuilder(cfg))(b.t).Run)
}

// gather gathers cosignatures until stop is called or the test ends.
func (b *bench) gather(change func(*cosigning.Times), witnesses ...witness.Named) (g *cosigning.Gatherer, stop func()) {
	b.t.Helper()
	b.metrics = prometheus.NewRegistry()
	cfg := cosigning.Config{
		Pool: b.pool, Witnesses: witnesses, Keys: b.keys, Host: host, Clock: b.clock.Now, Logger: b.logged.Logger(), Metrics: b.metrics, HTTP: http.DefaultTransport,
	}
	g = testkit.Must(cosigning.New(cfg))(b.t)
	t := g.Times()
	t.Gather, t.Sweep, t.Rest, t.Backoff, t.Longest = time.Millisecond, 10*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	if change != nil {
		change(t)
	}
	return g, b.run(g.Run)
}

func (b *bench) run(do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// count is a counter of trees by their outcome.
func (b *bench) count(outcome string) (n float64) {
	b.t.Helper()
	for _, family := range testkit.Must(b.metrics.Gather())(b.t) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == "ledgerfeed_witness_trees_total" && l.GetName() == "outcome" && l.GetValue() == outcome {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// cosigned checks that both trees of a workspace have what the log has, and who has cosigned
// their checkpoints; other signatures than these are none of theirs.
func (b *bench) cosigned(workspaceID string, by ...*cosigner) error {
	b.t.Helper()
	all, err := eventtree.ReadStates(b.t.Context(), b.pool, []string{workspaceID})
	if err != nil {
		return err
	}
	trees := all[workspaceID]
	var newest int64
	if err := b.pool.QueryRow(b.t.Context(), `SELECT position FROM log_head WHERE workspace_id = $1`, workspaceID).Scan(&newest); err != nil {
		return err
	}
	for _, s := range eventtree.Sights() {
		origin, state := eventtree.Origin(host, workspaceID, s), trees.Of(s)
		if state.Position != newest {
			return fmt.Errorf("the tree %s is of position %d, not %d", origin, state.Position, newest)
		}
		signed := string(testkit.Must(b.keys.Sign(origin, state.Text(origin)))(b.t)) + strings.Join(trees.Cosigned(s, origin), "")
		var verifiers []note.Verifier
		for _, c := range by {
			verifiers = append(verifiers, c.Key)
		}
		for _, text := range testkit.Must(b.keys.Verifiers(origin))(b.t) {
			verifiers = append(verifiers, testkit.Must(note.NewVerifier(text))(b.t))
		}
		n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
		if err != nil {
			b.t.Fatalf("%s: %v\n%s", origin, err, signed)
		}
		if len(n.Sigs) != len(verifiers) || len(n.UnverifiedSigs) > 0 {
			return fmt.Errorf("%s has %d signatures and %d of others, want %d", origin, len(n.Sigs), len(n.UnverifiedSigs), len(verifiers))
		}
	}
	return nil
}

// cosigner is a witness that listens.
type cosigner struct {
	*witnesstest.Witness

	server *httptest.Server
	asked  atomic.Int64 // requests
	other  atomic.Int64 // of them that began at another size than the witness has
}

// newCosigner makes a witness that knows the logs of some workspaces.
func newCosigner(t *testing.T, name string, keys *signingkey.Keys, workspaceIDs ...string) *cosigner {
	t.Helper()
	c := &cosigner{Witness: witnesstest.New(t, name)}
	for _, id := range workspaceIDs {
		for _, s := range eventtree.Sights() {
			c.Know(t, testkit.Must(keys.Verifiers(eventtree.Origin(host, id, s)))(t)...)
		}
	}
	c.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		c.ServeHTTP(&judged{rw, c}, r)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// judged is an answer of a cosigner.
type judged struct {
	http.ResponseWriter
	of *cosigner
}

// WriteHeader implements http.ResponseWriter.
func (j *judged) WriteHeader(status int) {
	if status == http.StatusConflict {
		j.of.other.Add(1)
	}
	j.ResponseWriter.WriteHeader(status)
}

func (c *cosigner) named() witness.Named {
	return witness.Named{Key: c.Key, URL: c.server.URL}
}

// switched is a server that is away for a time.
type switched struct {
	away atomic.Bool
	to   http.Handler
}

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.to.ServeHTTP(w, r)
}
