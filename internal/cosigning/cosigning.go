// Package cosigning asks a service's witnesses to cosign the checkpoints of its trees
// (https://c2sp.org/tlog-witness). It keeps the cosignatures in the database, from where they are
// served with their checkpoints.
//
// Each witness has a loop of its own, so a slow or unavailable witness holds up neither the others
// nor the trees. The loop is told when trees grow in this process, and finds other trees in a
// sweep. It asks about a tree that does not grow only once, or now and then if the witness refused
// it.
package cosigning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// Gatherer gathers cosignatures while it runs.
type Gatherer struct {
	cfg     Config
	times   times
	askers  []*asker
	metrics *metrics
}

// times are how long a Gatherer waits. Tests shorten them before it runs.
type times struct {
	Gather  time.Duration // between two rounds
	Timeout time.Duration // for one tree at one witness, over several requests
	Sweep   time.Duration // between two statements of a sweep
	Rest    time.Duration // between two sweeps
	Backoff time.Duration // after the first failure; it doubles
	Longest time.Duration // the longest backoff
}

// New makes a Gatherer.
func New(cfg Config) (*Gatherer, error) {
	if cfg.Pool == nil || cfg.Keys == nil || cfg.Host == "" || cfg.HTTP == nil {
		return nil, errors.New("cosigning: Config needs a Pool, Keys, a Host and HTTP")
	}
	g := &Gatherer{cfg: cfg, metrics: newMetrics(), times: times{
		Gather: 100 * time.Millisecond, Timeout: 10 * time.Second, Sweep: time.Second, Rest: 30 * time.Second, Backoff: time.Second, Longest: time.Minute,
	}}
	for i := range cfg.Witnesses {
		g.askers = append(g.askers, newAsker(&g.cfg, &g.times, g.metrics, &cfg.Witnesses[i]))
	}
	if cfg.Metrics != nil {
		for _, c := range g.metrics.collectors() {
			if err := cfg.Metrics.Register(c); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// Grown says that the trees of a workspace have the events up to a position, or soon will.
func (g *Gatherer) Grown(workspaceID string, position int64) {
	for _, a := range g.askers {
		a.add(position, workspaceID)
	}
}

// Run gathers until ctx ends.
func (g *Gatherer) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	for _, a := range g.askers {
		wait.Go(func() { a.run(ctx) })
		wait.Go(func() { a.sweep(ctx) })
	}
	wait.Wait()
	return nil
}

const (
	// maxWaiting bounds the workspaces that wait for one witness; the sweep finds others.
	maxWaiting = 10_000
	// batchSize is how many workspaces' trees are read at once.
	batchSize = 100
	// underWay bounds the requests to a witness that are in flight.
	underWay = 8
	// sweepWorkspaces is how many workspaces' trees one statement of a sweep reads.
	sweepWorkspaces = 500
	// maxRefused bounds the trees that a witness is remembered to refuse.
	maxRefused = 1000
	// agent is the User-Agent.
	agent = "ledgerfeed/1"
)

// Config configures a Gatherer.
type Config struct {
	Pool      pg.DB
	Witnesses witness.List
	Keys      *signingkey.Keys
	Host      string // the beginning of every tree's name
	Clock     func() time.Time
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none
	HTTP      http.RoundTripper
}

// commitTimeout is how long to wait for a tree that was said to grow: its transaction may have
// failed.
const commitTimeout = 10 * time.Second

// askAgain is the time between two requests about a tree that was refused and has not grown.
const askAgain = 10 * time.Minute

// waiting is a workspace that waits for a witness.
type waiting struct {
	position int64     // its trees are read once they have reached this position
	until    time.Time // or at this time
}

// asker asks one witness.
type asker struct {
	cfg     *Config
	times   *times
	metrics *metrics

	witness *witness.Named
	id      string
	signal  chan struct{} // something waits
	outage  flow.Outage
	reading flow.Outage

	mu      sync.Mutex
	waiting map[string]waiting
	refused map[string]refusal // by origin
}

// refusal records that a witness does not cosign a tree as it is.
type refusal struct {
	position int64 // of the tree; noPosition: the witness failed, and is asked again
	at       time.Time
}

const noPosition = -1

func newAsker(cfg *Config, t *times, m *metrics, w *witness.Named) *asker {
	logger := cfg.Logger.With("witness", w.ID())
	a := &asker{
		cfg: cfg, times: t, metrics: m, witness: w, id: w.ID(), signal: make(chan struct{}, 1), waiting: map[string]waiting{}, refused: map[string]refusal{},
		outage: flow.Outage{
			Logger:  logger,
			Failing: "a witness does not cosign; checkpoints are served without it until it does", Working: "the witness cosigns again",
		},
		reading: flow.Outage{Logger: logger, Failing: "cannot read or keep what a witness cosigns", Working: "what a witness cosigns is read and kept again"},
	}
	m.cosigned.WithLabelValues(a.id).Set(0)
	m.waiting.WithLabelValues(a.id).Set(0)
	for _, outcome := range []string{"cosigned", "refused", "failed"} { // start at 0, so that the first one is an increase
		m.trees.WithLabelValues(a.id, outcome)
	}
	return a
}

// add queues workspaces, unless too many are waiting. They come into the same round, so that the
// witness is judged by what it says about all of them.
func (a *asker) add(position int64, workspaceIDs ...string) {
	a.mu.Lock()
	for _, id := range workspaceIDs {
		if w, known := a.waiting[id]; known || len(a.waiting) < maxWaiting {
			a.waiting[id] = waiting{max(position, w.position), a.cfg.Clock().Add(commitTimeout)}
		}
	}
	a.metrics.waiting.WithLabelValues(a.id).Set(float64(len(a.waiting)))
	a.mu.Unlock()
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// take removes up to batchSize workspaces from the queue and returns them.
func (a *asker) take() map[string]waiting {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := map[string]waiting{}
	for id, w := range a.waiting {
		if len(batch) == batchSize {
			break
		}
		batch[id] = w
		delete(a.waiting, id)
	}
	a.metrics.waiting.WithLabelValues(a.id).Set(float64(len(a.waiting)))
	return batch
}

// putBack queues workspaces again, with their old deadlines.
func (a *asker) putBack(batch map[string]waiting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, w := range batch {
		if _, known := a.waiting[id]; !known && len(a.waiting) < maxWaiting {
			a.waiting[id] = w
		}
	}
	a.metrics.waiting.WithLabelValues(a.id).Set(float64(len(a.waiting)))
}

// run asks about queued workspaces until ctx ends.
func (a *asker) run(ctx context.Context) {
	backoff := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.signal:
		}
		for {
			// This also bounds how often each tree is asked about. Trees grow about once a second.
			if !flow.Sleep(ctx, a.times.Gather+backoff) {
				return
			}
			batch := a.take()
			if len(batch) == 0 {
				break
			}
			err := a.round(ctx, batch)
			if ctx.Err() != nil {
				return
			}
			backoff = a.next(backoff, err)
		}
	}
}

// next returns the backoff after a round: 0 after a success, otherwise twice the one before,
// between Backoff and Longest.
func (a *asker) next(before time.Duration, err error) time.Duration {
	if err == nil {
		return 0
	}
	return min(max(2*before, a.times.Backoff), a.times.Longest)
}

// round asks about the trees of some workspaces. An error means that the caller should back off. A
// tree that failed is no reason to back off if the witness answers about others, in this round or
// in the one in which that tree first failed. It is asked about again when it has grown, or by the
// next sweep. A tree that was not asked about, because others failed first, waits for the next
// round.
func (a *asker) round(ctx context.Context, batch map[string]waiting) error {
	ids := make([]string, 0, len(batch))
	for id := range batch {
		ids = append(ids, id)
	}
	trees, positions, err := eventtree.ReadUncosigned(ctx, a.cfg.Pool, a.id, a.cfg.Host, ids)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.reading.LogTransition(ctx, err)
		a.putBack(batch)
		return err
	}
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		failed error
		of     = map[string]bool{}    // workspaces with trees that failed
		heard  bool                   // the witness has cosigned or refused a tree
		later  = map[string]waiting{} // not asked about
		again  = map[string]waiting{}
		why    = map[string]error{} // by origin
		slots  = make(chan struct{}, underWay)
	)
	// stop reports whether the round asks no more: the database failed, or the witness failed for two
	// workspaces and has answered nothing. If it fails for one alone, the others still get theirs.
	stop := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ours(failed) || failed != nil && !heard && len(of) > 1
	}
	for id, w := range batch {
		if positions[id] < w.position && a.cfg.Clock().Before(w.until) {
			mu.Lock()
			later[id] = w
			mu.Unlock()
			continue
		}
		for i := range trees[id] {
			slots <- struct{}{}
			wait.Go(func() {
				defer func() { <-slots }()
				if stop() {
					mu.Lock()
					defer mu.Unlock()
					later[id] = w
					return
				}
				answered, err := a.ask(ctx, id, &trees[id][i])
				mu.Lock()
				defer mu.Unlock()
				heard = heard || answered
				if err == nil {
					return
				}
				origin := eventtree.Origin(a.cfg.Host, id, trees[id][i].Sight)
				why[origin], of[id] = err, true
				_, failedBefore := a.refusedAt(origin, noPosition)
				if ours(err) || !ours(failed) && !failedBefore {
					failed = err
					again[id] = w
				}
			})
		}
	}
	wait.Wait()
	a.putBack(later)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ours(failed):
		a.putBack(again)
		a.reading.LogTransition(ctx, failed)
		return failed
	}
	a.reading.LogTransition(ctx, nil)
	if heard {
		a.outage.LogTransition(ctx, nil)
		a.noteFailures(ctx, why)
		return nil
	}
	a.putBack(again)
	if failed != nil {
		a.outage.LogTransition(ctx, failed)
	}
	return failed
}

// noteFailures logs, once for each tree, that the witness fails for it and not for others.
func (a *asker) noteFailures(ctx context.Context, why map[string]error) {
	for origin, err := range why {
		if a.noteRefusal(origin, noPosition) {
			a.cfg.Logger.WarnContext(ctx, "a witness fails for a checkpoint, and not for others; it is asked again", "witness", a.id, "origin", origin, "error", err)
		}
	}
}

// databaseError is an error of the database, not of the witness.
type databaseError struct{ err error }

func (e *databaseError) Error() string { return e.err.Error() }
func (e *databaseError) Unwrap() error { return e.err }

func ours(err error) bool {
	_, is := errors.AsType[*databaseError](err)
	return is
}

// proofError says that a proof could not be made, which is not the witness's fault.
type proofError struct{ err error }

func (e *proofError) Error() string { return e.err.Error() }
func (e *proofError) Unwrap() error { return e.err }

// ask asks the witness to cosign a tree, and keeps the cosignature. It reports whether the witness
// answered. It returns no error if the witness refuses the tree, because backing off would not
// help.
func (a *asker) ask(ctx context.Context, workspaceID string, tree *eventtree.Uncosigned) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.times.Timeout)
	defer cancel()
	origin := eventtree.Origin(a.cfg.Host, workspaceID, tree.Sight)
	if at, refused := a.refusedAt(origin, tree.State.Position); refused && a.cfg.Clock().Sub(at) < askAgain {
		return false, nil
	}
	signed, err := a.cfg.Keys.Sign(origin, tree.State.Text(origin))
	if err != nil {
		return false, fmt.Errorf("sign a checkpoint: %w", err)
	}
	cosigned, _, err := witness.Submit(ctx, &witness.Submission{
		URL: a.witness.URL, Key: a.witness.Key, HTTP: a.cfg.HTTP, Agent: agent, Note: signed, Old: tree.Last,
		Prove: func(ctx context.Context, old int64) (tlog.TreeProof, error) {
			proof, err := a.prove(ctx, workspaceID, tree, old)
			if err != nil {
				return nil, &proofError{err}
			}
			return proof, nil
		},
	})
	var (
		answer *witness.AnswerError
		proof  *proofError
	)
	switch {
	case err == nil:
		line := string(cosigned[len(signed):])
		if err := eventtree.SaveCosignature(ctx, a.cfg.Pool, workspaceID, a.id, tree.Sight, &tree.State, eventtree.Cosignature{Origin: origin, Line: line}); err != nil {
			return true, &databaseError{err}
		}
		a.metrics.trees.WithLabelValues(a.id, "cosigned").Inc()
		a.metrics.cosigned.WithLabelValues(a.id).Set(float64(a.cfg.Clock().Unix()))
		a.mu.Lock()
		delete(a.refused, origin)
		a.mu.Unlock()
		return true, nil
	case errors.As(err, &answer) && answer.Status >= http.StatusBadRequest && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests,
		errors.As(err, &proof):
		return true, a.refuse(ctx, workspaceID, origin, tree, err)
	}
	a.metrics.trees.WithLabelValues(a.id, "failed").Inc()
	return false, err
}

// refuse records that a tree is not cosigned. It is asked about again when it has grown, or after
// askAgain, when the witness's operator may have done something about it.
func (a *asker) refuse(ctx context.Context, workspaceID, origin string, tree *eventtree.Uncosigned, why error) error {
	// Another process may have had a newer checkpoint cosigned meanwhile.
	_, positions, err := eventtree.ReadUncosigned(ctx, a.cfg.Pool, a.id, a.cfg.Host, []string{workspaceID})
	if err != nil {
		return &databaseError{err}
	}
	if positions[workspaceID] > tree.State.Position {
		a.add(positions[workspaceID], workspaceID)
		return nil
	}
	a.metrics.trees.WithLabelValues(a.id, "refused").Inc()
	if a.noteRefusal(origin, tree.State.Position) {
		a.cfg.Logger.ErrorContext(ctx, "a witness refuses a checkpoint. If it has seen another or a larger tree, an older backup was restored or the log was changed. If it does not know the log, its operator must add the log's verifier key",
			"witness", a.id, "origin", origin, "size", tree.State.Size, "error", why)
	}
	return nil
}

// noteRefusal records a refusal, and reports whether it is the first one known for the tree.
func (a *asker) noteRefusal(origin string, position int64) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.refused[origin]
	if !known && len(a.refused) >= maxRefused {
		for other := range a.refused { // any one: the next sweep asks about it again
			delete(a.refused, other)
			break
		}
	}
	a.refused[origin] = refusal{position, a.cfg.Clock()}
	return !known || before.position == noPosition && position != noPosition
}

// refusedAt reports whether the tree's last refusal is for this position, and when it was.
func (a *asker) refusedAt(origin string, position int64) (at time.Time, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, known := a.refused[origin]
	return r.at, known && r.position == position
}

// prove returns a proof that a tree extends its own first old leaves.
func (a *asker) prove(ctx context.Context, workspaceID string, tree *eventtree.Uncosigned, old int64) (tlog.TreeProof, error) {
	read := tiles(func(tile tlog.Tile) ([]byte, error) {
		hashes, _, err := eventtree.ReadTile(ctx, a.cfg.Pool, workspaceID, tree.Sight, eventtree.Path{Level: tile.L, Index: tile.N, Width: tile.W})
		return hashes, err
	})
	hashes := tlog.TileHashReader(tlog.Tree{N: tree.State.Size, Hash: tree.State.Root}, read)
	proof, err := tlog.ProveTree(tree.State.Size, old, hashes)
	if err != nil {
		return nil, fmt.Errorf("prove that the tree of size %d extends that of size %d: %w", tree.State.Size, old, err)
	}
	return proof, nil
}

// tiles reads the tiles of a tree for one proof; nil data: the tree does not have the tile.
type tiles func(tlog.Tile) ([]byte, error)

func (tiles) Height() int { return 8 }

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(list))
	for i, tile := range list {
		hashes, err := t(tile)
		if err != nil {
			return nil, err
		}
		if hashes == nil {
			return nil, fmt.Errorf("the tree has no tile %d at level %d of %d hashes", tile.N, tile.L, tile.W)
		}
		data[i] = hashes
	}
	return data, nil
}

// sweep finds trees without a cosignature that Grown was not called for: this process was down, or
// another process built them.
func (a *asker) sweep(ctx context.Context) {
	outage := flow.Outage{Logger: a.reading.Logger, Failing: "cannot look for checkpoints that a witness has to cosign", Working: "the search for checkpoints that a witness has to cosign works again"}
	after := ""
	for {
		found, last, err := eventtree.FindUncosigned(ctx, a.cfg.Pool, a.id, a.cfg.Host, after, sweepWorkspaces)
		if ctx.Err() != nil {
			return
		}
		outage.LogTransition(ctx, err)
		a.add(0, found...)
		pause := a.times.Sweep
		if after = last; after == "" {
			pause = a.times.Rest
		}
		if !flow.Sleep(ctx, pause) {
			return
		}
	}
}

type metrics struct {
	trees    *prometheus.CounterVec
	cosigned *prometheus.GaugeVec
	waiting  *prometheus.GaugeVec
}

func newMetrics() *metrics {
	of := []string{"witness"}
	return &metrics{
		trees: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_witness_trees_total", Help: "Trees that a witness was asked about, by outcome: cosigned, refused (it has another tree, or does not know the log), failed (it was away, slow or answered nonsense).",
		}, []string{"witness", "outcome"}),
		cosigned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_witness_cosigned_timestamp_seconds", Help: "When a witness last cosigned a checkpoint for this process; 0: it has not.",
		}, of),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_witness_waiting_workspaces", Help: "Workspaces whose trees wait for a witness in this process.",
		}, of),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.trees, m.cosigned, m.waiting}
}
