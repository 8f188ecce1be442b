package replaybench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// whileRebuilding calls work while workspaces are rebuilt one after the other, with
// the rate limit of the command's default.
func (b *bench) whileRebuilding(ctx context.Context, work func() error) error {
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var progress replay.Progress
		_, err := b.replay(rebuilding, &progress, replay.NewYieldingRateLimiter(b.Pool), func(p *replay.Replayer) error {
			for {
				if err := p.Rebuild(rebuilding, replay.RebuildRequest{}, func(replay.Rebuilt) {}); err != nil {
					return err
				}
			}
		})
		ended <- err
	}()
	err := work()
	stop()
	if rerr := <-ended; err == nil && ctx.Err() == nil && !errors.Is(rerr, context.Canceled) {
		err = rerr
	}
	return err
}

// pageRate is how many pages a second are requested: far below what the API can
// serve, so that the times show waiting.
const pageRate = 200

// readBeside measures pages of 50 invoices, alone and while every invoice is
// rewritten by a rebuild.
func (b *bench) readBeside(ctx context.Context) (alone, beside pageTimes, err error) {
	b.Say("reading alone and beside a rebuild")
	server, err := api.Serve(ctx, b.Database, api.Options{CacheBytes: api.NoCache, RequestLog: true})
	if err != nil {
		return alone, beside, err
	}
	key, err := server.NewKey(ctx, workload.WorkspaceID(0))
	if err != nil {
		return alone, beside, err
	}
	read := func() (pageTimes, error) {
		times, err := api.AtRate(ctx, b.Options, api.Request{Host: server.Address, Path: "/v1/invoices", Key: key}, pageRate)
		return pageTimes{measure.Quantile(times, 1), measure.Quantile(times, 0.99)}, err
	}
	if alone, err = read(); err != nil {
		return alone, beside, err
	}
	if _, err := b.Pool.Exec(ctx, `UPDATE invoice SET base = replace(base, '"plan_name":', '"plan_name":"damaged","was":')`); err != nil {
		return alone, beside, fmt.Errorf("cannot damage the invoices: %w", err)
	}
	err = b.whileRebuilding(ctx, func() (err error) {
		beside, err = read()
		return err
	})
	return alone, beside, err
}

const (
	appendCallers = 4
	appendTime    = 8 * time.Second // at full scale
	minAppendTime = 5 * time.Second
	// appendRounds alternate between alone and beside, because the machine may be
	// doing other things as well.
	appendRounds = 3
)

// appendBeside measures the entries appended a second, alone and while workspaces
// are rebuilt. The median of the rounds counts.
func (b *bench) appendBeside(ctx context.Context) (alone, beside float64, err error) {
	drafts, err := workload.Samples(10_000)
	if err != nil {
		return 0, 0, err
	}
	appendRate := func() (float64, error) {
		n, took, _, err := measure.Repeat(ctx, appendCallers, max(minAppendTime, b.Duration(appendTime)), func(ctx context.Context, caller, turn int) error {
			d := drafts[(caller*7919+turn)%len(drafts)]
			d.WorkspaceID = fmt.Sprintf("beside-%d", caller)
			_, err := b.Log.Append(ctx, d)
			return err
		})
		return measure.PerSecond(n, took), err
	}
	var alones, besides []float64
	for range appendRounds {
		b.Say("appending alone and beside a rebuild")
		rate, err := appendRate()
		if err != nil {
			return 0, 0, err
		}
		alones = append(alones, rate)
		if err := b.whileRebuilding(ctx, func() (err error) {
			rate, err = appendRate()
			return err
		}); err != nil {
			return 0, 0, err
		}
		besides = append(besides, rate)
	}
	return measure.Median(alones), measure.Median(besides), nil
}
