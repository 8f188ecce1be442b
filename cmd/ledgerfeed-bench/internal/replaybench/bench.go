package replaybench

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// bench is a database to replay in.
type bench struct{ *measure.Database }

// replay does some work with a Replay and returns how long it took.
func (b *bench) replay(ctx context.Context, progress *replay.Progress, pace func(context.Context, int) error, do func(*replay.Replayer) error) (time.Duration, error) {
	pool, err := pg.Open(ctx, b.URL, pg.Options{MaxConns: 3*replay.DefaultWorkers + 1, ReadBuffer: 64 << 10, Settings: replay.PoolSettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	p, err := replay.New(replay.Config{Pool: pool, Clock: time.Now, Progress: progress, Limit: pace})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = do(p)
	return time.Since(began), err
}

// verify fails when it finds a difference, because then the measurement is of
// something else.
func verify(ctx context.Context, p *replay.Replayer, q replay.VerifyRequest) error {
	var first *replay.Difference
	err := p.Verify(ctx, q, func(d replay.Difference) {
		if first == nil {
			first = &d
		}
	}, func(replay.Verification) {})
	if err == nil && first != nil {
		err = fmt.Errorf("the rows are not those of the log: %s", first)
	}
	return err
}
