// Package repair has the commands that fold the log again: verify, rebuild and
// explain, and quarantine, which decides about entries that cannot be projected.
package repair

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// flags are those that verify and rebuild have in common.
type flags struct {
	workspace string
	workers   int
	memoryMiB int64
	rate      int // entries and rows a second; 0: no limit; yieldingRate
}

// defaultMemoryMiB is well below what the process may take as a whole, because
// garbage of a fold stays in memory until the next collection.
const defaultMemoryMiB = 256

// yieldingRate slows down while entries are appended or the API is read.
const yieldingRate = -1

func (f *flags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.workspace, "workspace", "", "only this workspace")
	c.Flags().IntVar(&f.workers, "workers", replay.DefaultWorkers, "how many workspaces to work on at once")
	c.Flags().IntVar(&f.rate, "rate", yieldingRate, "the most entries and rows a second; 0 sets no limit, -1 slows down while producers append or readers use the API")
	c.Flags().Int64Var(&f.memoryMiB, "memory", defaultMemoryMiB, "the most MiB for all workspaces in progress, by estimate; the command folds a larger workspace into temporary tables")
}

func (f *flags) check() error {
	switch {
	case f.workers < 1 || f.workers > 64:
		return cli.Usagef("--workers is %d: want 1 to 64", f.workers)
	case f.memoryMiB < 1:
		return cli.Usagef("--memory is %d: want MiB, 1 or more", f.memoryMiB)
	case f.rate < yieldingRate:
		return cli.Usagef("--rate is %d: want entries and rows a second, or 0 for no limit", f.rate)
	}
	return nil
}

// Connections of a worker: two of its pool, and one for temporary tables; and those of the
// command beside them.
const (
	eachWorker        = 3
	leastOwn, mostOwn = 2, 8
	spare             = 1 // of the pool: the rate is read on it
)

// connections divides those that the process may have: fewer workers work at once where
// there are few.
func (f *flags) connections(env *cli.Env) (workers, own int, err error) {
	all, err := cli.Connections(env, "a command that folds the log", eachWorker+spare+leastOwn, eachWorker*f.workers+spare+mostOwn)
	if err != nil {
		return 0, 0, err
	}
	workers = min(f.workers, (all-spare-leastOwn)/eachWorker)
	return workers, min(mostOwn, all-spare-workers*eachWorker), nil
}

// running is a Replay at work for a command.
type running struct {
	*replay.Replayer
	env      *cli.Env
	progress *replay.Progress
	quiet    func() // ends the progress display; call it before printing
}

// with opens the database, makes a Replay, and shows progress while work runs.
func with(ctx context.Context, env *cli.Env, verb string, f flags, work func(*running) error) error {
	if err := f.check(); err != nil {
		return err
	}
	workers, own, err := f.connections(env)
	if err != nil {
		return err
	}
	return cli.WithConnections(ctx, env, own, func(d *cli.Deps) error {
		pool, err := pg.Open(ctx, d.URL, pg.Options{
			MaxConns: int32(2*workers + 1), ReadBuffer: 64 << 10, Settings: replay.PoolSettings(),
		})
		if err != nil {
			return err
		}
		defer pool.Close()
		var pace func(context.Context, int) error
		switch {
		case f.rate == yieldingRate:
			pace = replay.NewYieldingRateLimiter(pool)
		case f.rate > 0:
			pace = replay.NewRateLimiter(f.rate)
		}
		var progress replay.Progress
		r, err := replay.New(replay.Config{
			Pool: pool, Direct: d.Direct, Clock: env.Clock, Rules: env.Rules, Notify: d.Notifier.Notify, Workers: workers, Memory: f.memoryMiB << 20, Progress: &progress, Limit: pace,
		})
		if err != nil {
			return err
		}
		quiet := sync.OnceFunc(showProgress(env.ErrOut, verb, &progress))
		defer quiet()
		return work(&running{r, env, &progress, quiet})
	})
}

// checkResource returns a UsageError for a name that is no resource.
func checkResource(name string) error {
	if slices.Contains(replay.Resources(), name) {
		return nil
	}
	return &cli.UsageError{Err: &replay.UnknownResourceError{Resource: name}}
}

// interrupted replaces an error that only says that ctx ended by how things
// stand then.
func interrupted(ctx context.Context, err error, state string) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted; %s", state)
	}
	return err
}
