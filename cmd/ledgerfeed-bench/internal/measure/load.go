package measure

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// NoLogger drops all lines.
func NoLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Repeat runs callers side by side. Each calls do again and again, with its own
// number and the number of the turn, until the time is over or do fails. It returns how
// often do succeeded, the time in all, and how long each call took.
func Repeat(ctx context.Context, callers int, d time.Duration, do func(ctx context.Context, caller, turn int) error) (count int, took time.Duration, times []time.Duration, err error) {
	stop := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(stop) })
	defer timer.Stop()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	began := time.Now()
	for c := range callers {
		group.Go(func() {
			var mine []time.Duration
			var failed error
			for turn := 0; failed == nil; turn++ {
				select {
				case <-stop:
					mu.Lock()
					times = append(times, mine...)
					mu.Unlock()
					return
				default:
				}
				at := time.Now()
				if failed = do(ctx, c, turn); failed == nil {
					mine = append(mine, time.Since(at))
				}
			}
			mu.Lock()
			if err == nil {
				err = failed
			}
			mu.Unlock()
		})
	}
	group.Wait()
	return len(times), time.Since(began), times, err
}

// PerSecond is a rate.
func PerSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// Pause waits for d. It returns earlier, with its cause, when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
