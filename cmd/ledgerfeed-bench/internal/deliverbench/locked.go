package deliverbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// lockedWebhooks are those whose rows another transaction locks.
const lockedWebhooks = 5

// benchLocked compares the p99 of 20 webhooks while a transaction has the rows of 5
// others locked with that while it has not. The two alternate, and the median of each
// counts. Commits do not wait for the disk, as in benchHanging.
func benchLocked(ctx context.Context, o *measure.Options) error {
	var rounds []round
	for i := range hangingRounds {
		r, err := lockedRound(ctx, o)
		if err != nil {
			return err
		}
		o.Say("round %d of %d: p99 %.2f ms beside locked webhooks, %.2f ms without: %.2f", i+1, hangingRounds, r.troubled.p99, r.quiet.p99, r.ratio())
		rounds = append(rounds, r)
	}
	median := measure.MedianBy(rounds, round.ratio)
	var beside []time.Duration
	for _, r := range rounds {
		beside = append(beside, r.troubled.times...)
	}
	o.Report.Add(measure.Figure{
		Name: "p99 of 20 webhooks while the rows of 5 others are locked", Value: median.troubled.p99, Unit: "ms",
		Limit: median.quiet.p99, LimitIs: "the same with none locked",
	}.RatioAtMost(2))
	o.Report.Add(measure.Figure{Name: "    the longest of all messages of all rounds", Value: measure.Quantile(beside, 1), Unit: "ms"})
	return nil
}

// lockedRound measures beside webhooks that answer, without and with their rows
// locked.
func lockedRound(ctx context.Context, o *measure.Options) (r round, err error) {
	for _, locked := range []bool{false, true} {
		err = measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
			if err := db.DoNotWaitForDisk(ctx); err != nil {
				return err
			}
			_, list, err := (&bench{Database: db}).latency(ctx, latency{
				rate: hangingRate, speaks: http1, duration: db.Duration(latencyTime), others: lockedWebhooks, locked: locked,
			})
			if err == nil && locked {
				r.troubled = newGood(list)
			} else if err == nil {
				r.quiet = newGood(list)
			}
			return err
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

const lockRows = `
	SELECT FROM webhook w JOIN webhook_cursor c USING (workspace_id, webhook_id) WHERE w.workspace_id LIKE 'other-%' FOR UPDATE`

// lockOthers locks the rows of the other webhooks, as a person at psql would, for a
// time or until unlock.
func (b *bench) lockOthers(ctx context.Context, duration time.Duration) (unlock func() error, err error) {
	conn, err := pg.Connect(ctx, b.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot lock webhooks: %w", err)
	}
	for _, sql := range []string{"BEGIN", lockRows} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot lock webhooks: %w", err), conn.Close(context.WithoutCancel(ctx)))
		}
	}
	ended := make(chan error, 1)
	timer := time.AfterFunc(duration, func() { ended <- conn.Close(context.WithoutCancel(ctx)) })
	return func() error {
		if timer.Stop() {
			return conn.Close(context.WithoutCancel(ctx))
		}
		return <-ended
	}, nil
}
