//go:build linux

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Config of a Workload.
type Config struct {
	Cluster    *cluster.Cluster
	Findings   *check.Findings
	Dir        string        // for files that are appended
	Seed       uint64        // of what is appended
	Workspaces int           // that producers write to
	Pace       time.Duration // between two appends of one producer
}

// Workload is everything that uses the program.
type Workload struct {
	History   *check.History
	Follows   []*check.Follow
	Receivers *Receivers
	Readers   *Readers
	Bystander *Bystander
	Clock     *Clock // of one of the producers

	*env

	cfg       Config
	notifier  *eventlog.Notifier
	producers *producers
	commands  *commands

	producing, following, beside group
}

// group is goroutines that end together.
type group struct {
	stop context.CancelFunc
	wait sync.WaitGroup
}

func (g *group) start(ctx context.Context, runs ...func(context.Context)) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	for _, run := range runs {
		g.wait.Go(func() { run(running) })
	}
}

func (g *group) end() {
	if g.stop != nil {
		g.stop()
	}
	g.wait.Wait()
}

// New makes what the workload needs in the database: workspaces, keys and webhooks.
// The schema is there.
func New(ctx context.Context, cfg Config) (*Workload, error) {
	w := &Workload{
		Clock: &Clock{}, cfg: cfg,
		env: &env{
			cluster: cfg.Cluster, findings: cfg.Findings, history: check.NewHistory(), gate: newGate(),
			keys: map[string]map[check.Sight]string{},
		},
	}
	w.History = w.history
	w.producers = &producers{env: w.env, sources: map[string]*source{}, file: filepath.Join(cfg.Dir, "append.ndjson"), pace: cfg.Pace}
	for i := range cfg.Workspaces {
		w.workspaces = append(w.workspaces, fmt.Sprintf("tenant-%d", i+1))
	}
	var err error
	if w.Receivers, err = newReceivers(ctx, filepath.Join(cfg.Dir, "receivers.pem")); err != nil {
		return nil, err
	}
	cfg.Cluster.Configure(w.Receivers.settings()...)
	w.commands = &commands{env: w.env}
	w.Readers = newReaders(w.env)
	return w, nil
}

// all are the workspaces with the canary.
func (w *Workload) all() []string { return append([]string{Canary}, w.workspaces...) }

// Workspaces are the workspaces that producers write to.
func (w *Workload) Workspaces() []string { return w.workspaces }

// Keys are the keys of a workspace, each with other permissions.
func (w *Workload) Keys(workspace string) (list []string) {
	for _, s := range sights() {
		list = append(list, w.keys[workspace][s])
	}
	return list
}

// Prepare makes workspaces, keys, webhooks and the producers' own table.
func (w *Workload) Prepare(ctx context.Context) error {
	c := w.cluster
	if err := c.Primary().Exec(ctx, `CREATE TABLE chaos_outbox (workspace_id text, id text, PRIMARY KEY (workspace_id, id))`); err != nil {
		return fmt.Errorf("cannot make the producers' table: %w", err)
	}
	var keys sync.Mutex
	var making errgroup.Group
	making.SetLimit(2)
	for i, id := range w.all() {
		w.producers.sources[id] = newSource(id, w.cfg.Seed+uint64(i))
		w.keys[id] = map[check.Sight]string{}
	}
	for _, id := range w.all() {
		making.Go(func() error {
			if _, err := c.Output(ctx, "workspace", "create", "--id", id, "--name", id); err != nil {
				return err
			}
			for _, sight := range sights() {
				secret, err := w.makeKey(ctx, id, sight)
				if err != nil {
					return err
				}
				keys.Lock()
				w.keys[id][sight] = secret
				keys.Unlock()
			}
			return w.makeWebhook(ctx, id)
		})
	}
	if err := making.Wait(); err != nil {
		return err
	}
	return w.openLogs(ctx)
}

// openLogs opens the log for producers, by a way on which faults reach them, too.
func (w *Workload) openLogs(ctx context.Context) (err error) {
	p := w.producers
	if p.pool, err = pg.Open(ctx, w.cluster.ProducersURL(), pg.Options{MaxConns: 12}); err != nil {
		return err
	}
	w.notifier = eventlog.NewNotifier(p.pool, discard())
	if p.log, err = eventlog.New(eventlog.Config{Pool: p.pool, Clock: time.Now, Notify: w.notifier.Notify}); err != nil {
		return err
	}
	if p.clocked, err = eventlog.New(eventlog.Config{Pool: p.pool, Clock: w.Clock.Now, Notify: w.notifier.Notify}); err != nil {
		return err
	}
	w.Bystander = &Bystander{env: w.env, log: p.log, source: p.sources[Canary], inbox: w.Receivers.Inbox(Canary)}
	return nil
}

func (w *Workload) makeKey(ctx context.Context, workspace string, sight check.Sight) (string, error) {
	scopes := "invoices:read,time_entries:read,clients:read,credits:read,contractors:read,payments:read,events:read"
	if sight.Pay {
		scopes += ",pay:read"
	}
	if sight.Margin {
		scopes += ",margin:read"
	}
	out, err := w.cluster.Output(ctx, "key", "create", "--json", "--workspace", workspace, "--name", sight.String(), "--rate-limit", "1000000", "--scopes", scopes)
	if err != nil {
		return "", err
	}
	var made struct{ Key string }
	if err := json.Unmarshal(out, &made); err != nil || made.Key == "" {
		return "", fmt.Errorf("key create printed %s: %w", out, err)
	}
	return made.Key, nil
}

func (w *Workload) makeWebhook(ctx context.Context, workspace string) error {
	out, err := w.cluster.Output(ctx, "webhook", "create", "--json", "--workspace", workspace, "--url", w.Receivers.address(workspace))
	if err != nil {
		return err
	}
	var made struct{ ID, Secret string }
	if err := json.Unmarshal(out, &made); err != nil || made.Secret == "" {
		return fmt.Errorf("webhook create printed %s: %w", out, err)
	}
	w.Receivers.add(workspace, made.ID, made.Secret)
	return nil
}

// Start starts everything.
func (w *Workload) Start(ctx context.Context) {
	w.beside.start(ctx,
		func(ctx context.Context) { _ = w.notifier.Run(ctx) },
		w.Receivers.run, w.Readers.run, w.commands.run)
	producers := []func(context.Context){w.Bystander.run} // it ends before the receivers do
	for i, p := range w.producers.kinds() {
		rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(i)))
		producers = append(producers, func(ctx context.Context) { w.producers.produce(ctx, p, rng) })
	}
	w.producing.start(ctx, producers...)
	var following []func(context.Context)
	for i, f := range newFollowers(w.env) {
		w.Follows = append(w.Follows, f.seen)
		rng := rand.New(rand.NewPCG(w.cfg.Seed, 1000+uint64(i)))
		following = append(following, func(ctx context.Context) { f.run(ctx, rng) })
	}
	w.following.start(ctx, following...)
}

// StopProducers lets producers and the bystander finish what they have begun and ends them.
func (w *Workload) StopProducers() { w.producing.end() }

// StopFollowers ends the followers, which first read to the end of their lists.
func (w *Workload) StopFollowers() { w.following.end() }

// StopOthers ends readers, receivers and commands.
func (w *Workload) StopOthers() {
	w.beside.end()
	if w.producers.pool != nil {
		w.producers.pool.Close()
	}
}

// LoseTail runs a fault that makes the log an older one: no producer and no follower
// is under way meanwhile, and what was acknowledged and is gone is noted as lost.
func (w *Workload) LoseTail(ctx context.Context, fault func(context.Context) error) error {
	release := w.gate.shut()
	defer release()
	at := time.Now() // what was seen before may be of the tail; cursors of then are of the old log
	if _, held, err := w.held(ctx); err == nil {
		w.history.CheckHeld(held, w.findings)
	}
	if err := fault(ctx); err != nil {
		return err
	}
	heads, held, err := w.held(ctx)
	if err == nil {
		w.history.Lose(at, time.Now(), heads, held)
	}
	return err
}

// held reads what the log holds now: the head of each workspace, and every entry.
func (w *Workload) held(ctx context.Context) (heads map[string]int64, held func(workspace, id string) bool, err error) {
	heads = map[string]int64{}
	entries := map[[2]string]bool{}
	err = w.cluster.Primary().With(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT workspace_id, position, id FROM event_log`)
		if err != nil {
			return fmt.Errorf("read what the log holds: %w", err)
		}
		var (
			workspace, id string
			position      int64
		)
		_, err = pgx.ForEachRow(rows, []any{&workspace, &position, &id}, func() error {
			heads[workspace] = max(heads[workspace], position)
			entries[[2]string{workspace, id}] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("read what the log holds: %w", err)
		}
		return nil
	})
	return heads, func(workspace, id string) bool { return entries[[2]string{workspace, id}] }, err
}

// Outbox reads the rows that producers wrote in the transactions of their entries.
func (w *Workload) Outbox(ctx context.Context, conn *pgx.Conn) (map[string]map[string]bool, error) {
	found := map[string]map[string]bool{}
	rows, err := conn.Query(ctx, `SELECT workspace_id, id FROM chaos_outbox`)
	if err != nil {
		return nil, fmt.Errorf("read the producers' table: %w", err)
	}
	var workspace, id string
	_, err = pgx.ForEachRow(rows, []any{&workspace, &id}, func() error {
		if found[workspace] == nil {
			found[workspace] = map[string]bool{}
		}
		found[workspace][id] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the producers' table: %w", err)
	}
	return found, nil
}

// KillAppend kills the append command that runs; false: none does.
func (w *Workload) KillAppend() bool { return w.producers.killAppend() }

// Flood has many readers of one workspace ask the same without a pause, until ctx ends.
func (w *Workload) Flood(ctx context.Context, workspace string, readers int, paths []string) {
	w.flood(ctx, workspace, readers, paths)
}

// Beside is how many runs of verify and rebuild came to their end.
func (w *Workload) Beside() (verified, rebuilt int64) {
	return w.commands.verified.Load(), w.commands.rebuilt.Load()
}
