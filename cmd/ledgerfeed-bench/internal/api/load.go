package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

const (
	// Connections is how many callers send requests side by side.
	Connections = 16
	// LoadTime is how long a way of reading is measured at full scale.
	LoadTime = 6 * time.Second
)

// DialAll opens Connections connections for a request; hangUp closes them.
func DialAll(ctx context.Context, q Request) (callers []*Caller, hangUp func(), err error) {
	hangUp = func() {
		for _, c := range callers {
			c.Close()
		}
	}
	for range Connections {
		c, err := q.Dial(ctx)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		callers = append(callers, c)
	}
	return callers, hangUp, nil
}

// Saturate sends a request again and again over connections that stay open, and
// returns how many are answered a second.
func Saturate(ctx context.Context, o *measure.Options, q Request) (rate float64, err error) {
	callers, hangUp, err := DialAll(ctx, q)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	want := http.StatusOK
	if q.Conditional {
		want = http.StatusNotModified
	}
	n, took, _, err := measure.Repeat(ctx, Connections, o.Duration(LoadTime), func(_ context.Context, i, _ int) error {
		return callers[i].Expect(want)
	})
	return measure.PerSecond(n, took), err
}

// AtRate sends a request at a rate and returns how long each took. A time starts
// at the moment when the request was due, so that a request that waits for a
// slow one before it is slow, too.
func AtRate(ctx context.Context, o *measure.Options, q Request, rate float64) ([]time.Duration, error) {
	callers, hangUp, err := DialAll(ctx, q)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	pause := time.Duration(Connections / rate * float64(time.Second))
	began := time.Now()
	var (
		mu    sync.Mutex
		times []time.Duration
	)
	_, _, _, err = measure.Repeat(ctx, Connections, o.Duration(LoadTime), func(ctx context.Context, i, turn int) error {
		due := began.Add(pause*time.Duration(turn) + pause*time.Duration(i)/Connections)
		if wait := time.Until(due); wait > 0 {
			if err := measure.Pause(ctx, wait); err != nil {
				return err
			}
		}
		if err := callers[i].Expect(http.StatusOK); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Since(due))
		return nil
	})
	return times, err
}
