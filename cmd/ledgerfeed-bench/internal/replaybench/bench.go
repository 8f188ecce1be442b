package replaybench

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// bench is a database to replay in.
type bench struct{ *measure.Database }

// replay does some work with a Replay and returns how long it took.
func (b *bench) replay(ctx context.Context, meter *projections.Meter, pace func(context.Context, int) error, do func(*projections.Replay) error) (time.Duration, error) {
	pool, err := pg.Open(ctx, b.URL, pg.Options{MaxConns: 2*projections.DefaultReplayWorkers + 1, ReadBuffer: 64 << 10, Settings: projections.ReplaySettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	p, err := projections.NewReplay(projections.ReplayConfig{Pool: pool, Clock: time.Now, Meter: meter, Pace: pace})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = do(p)
	return time.Since(began), err
}

// verify fails when it finds a difference, because then the measurement is of
// something else.
func verify(ctx context.Context, p *projections.Replay, q projections.VerifyRequest) error {
	var first *projections.Difference
	err := p.Verify(ctx, q, func(d projections.Difference) {
		if first == nil {
			first = &d
		}
	}, func(projections.Verification) {})
	if err == nil && first != nil {
		err = fmt.Errorf("the rows are not those of the log: %s", first)
	}
	return err
}
