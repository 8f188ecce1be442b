package deliverbench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

const (
	// hangingRounds is odd, so that there is a median.
	hangingRounds   = 3
	hangingRate     = 200
	hangingWebhooks = 180
	// window is how many messages a p99 is taken of: two seconds' worth. When a
	// shared machine stalls for a moment, that spoils one window and not the others.
	window = 200
)

// good is what goodWebhooks saw in one measurement.
type good struct {
	times []time.Duration
	p99   float64 // the median of the windows' p99, in ms
}

func newGood(list []arrival) good {
	g := good{times: times(list)}
	var windows []float64
	for w := range slices.Chunk(g.times, window) {
		if len(w) == window || len(windows) == 0 {
			windows = append(windows, measure.Quantile(w, 0.99))
		}
	}
	g.p99 = measure.Median(windows)
	return g
}

// round is goodWebhooks beside webhooks that hang or are locked, and right before or after it beside
// webhooks that answer, which is the limit.
type round struct{ troubled, quiet good }

func (r round) ratio() float64 { return r.troubled.p99 / r.quiet.p99 }

// benchHanging compares the p99 of 20 webhooks beside 180 that hang with that
// beside 180 that answer, with the same events and the same work for the database.
// Over HTTP/2 a message to a receiver that hangs is one more stream; over HTTP/1.1
// it needs a connection of its own.
//
// A shared machine stalls now and then, its disk for half a second, and is slower
// in one minute than in the next. So commits do not wait for the disk here, each
// round is compared with its neighbour in time, every other round starts with the
// webhooks that hang, and the median round counts. The p99 of all messages of all
// rounds is reported, too.
func benchHanging(ctx context.Context, o *measure.Options, speaks protocol) error {
	const is = "the same beside 180 that answer"
	var (
		rounds             []round
		hanging, answering []time.Duration
	)
	for i := range hangingRounds {
		r, err := hangingRound(ctx, o, speaks, i%2 == 1)
		if err != nil {
			return err
		}
		o.Say("round %d of %d over %s: p99 %.2f ms beside those that hang, %.2f ms beside those that answer: %.2f",
			i+1, hangingRounds, speaks, r.troubled.p99, r.quiet.p99, r.ratio())
		rounds = append(rounds, r)
		hanging, answering = append(hanging, r.troubled.times...), append(answering, r.quiet.times...)
	}
	median := measure.MedianBy(rounds, round.ratio)
	o.Report.Add(measure.Figure{
		Name: fmt.Sprintf("p99 of 20 webhooks beside 180 that hang, all over %s", speaks), Value: median.troubled.p99, Unit: "ms",
		Limit: median.quiet.p99, LimitIs: is,
	}.RatioAtMost(1.1))
	o.Report.Add(measure.Figure{Name: "    of all messages of all rounds", Value: measure.Quantile(hanging, 0.99), Unit: "ms", Limit: measure.Quantile(answering, 0.99), LimitIs: is})
	return nil
}

// hangingRound measures a round, in this order or the other.
func hangingRound(ctx context.Context, o *measure.Options, speaks protocol, hangingFirst bool) (r round, err error) {
	halves := []struct {
		hang bool
		good *good
	}{{false, &r.quiet}, {true, &r.troubled}}
	if hangingFirst {
		slices.Reverse(halves)
	}
	for _, h := range halves {
		if *h.good, err = besideOthers(ctx, o, speaks, h.hang); err != nil {
			return r, err
		}
	}
	return r, nil
}

func besideOthers(ctx context.Context, o *measure.Options, speaks protocol, hang bool) (g good, err error) {
	err = measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		if err := db.DoNotWaitForDisk(ctx); err != nil {
			return err
		}
		_, list, err := (&bench{Database: db}).latency(ctx, latency{
			rate: hangingRate, speaks: speaks, duration: db.Duration(latencyTime), others: hangingWebhooks, othersHang: hang,
		})
		if err == nil {
			g = newGood(list)
		}
		return err
	})
	return g, err
}
