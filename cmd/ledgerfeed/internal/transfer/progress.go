package transfer

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// meterEvery is the time between two lines of a meter. Work that is shorter shows none.
const meterEvery = 5 * time.Second

// meter tells how far a long piece of work is, in entries.
type meter struct {
	verb  string
	total int64 // 0: not known
	done  atomic.Int64
}

// show writes a line from time to time until stop is called.
func (m *meter) show(out io.Writer, every time.Duration) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(out, "%s: %s\n", m.verb, m.line(time.Since(began)))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// line tells the entries done, the rate and, where the total is known, the time left.
func (m *meter) line(took time.Duration) string {
	done := m.done.Load()
	rate := float64(done) / max(took.Seconds(), 0.001)
	if m.total == 0 {
		return fmt.Sprintf("%d entries, %.0f/s", done, rate)
	}
	left := "?"
	if done > 0 {
		left = (time.Duration(float64(max(0, m.total-done))/rate) * time.Second).String()
	}
	return fmt.Sprintf("%d of %d entries, %.0f/s, %s left", done, m.total, rate, left)
}
