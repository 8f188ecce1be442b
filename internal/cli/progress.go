package cli

import (
	"fmt"
	"io"
	"time"
)

// ProgressEvery is the time between two lines about the progress of long work. Work
// that is shorter shows none.
const ProgressEvery = 5 * time.Second

// ShowProgress writes a line about the progress of work from time to time until stop
// is called.
func ShowProgress(out io.Writer, verb string, line func(took time.Duration) string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(out, "%s: %s\n", verb, line(time.Since(began)))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Rate is how much is done a second, and how long the rest takes, in words.
func Rate(done, total int64, took time.Duration) (perSecond float64, left string) {
	perSecond = float64(done) / max(took.Seconds(), 0.001)
	if done == 0 {
		return perSecond, "?"
	}
	return perSecond, (time.Duration(float64(max(0, total-done))/perSecond) * time.Second).String()
}
