package flow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRepeat: work is done at once and at every interval, failures do not make it
// come more often, and an outage is two lines.
func TestRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			log     testkit.Buffer
			times   []time.Duration
			results []error
		)
		errAway := errors.New("the database is away")
		outcomes := []error{nil, errAway, errAway, nil, nil, errAway, nil}
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		outage := &flow.Outage{Logger: log.Logger(), Failing: "begins", Working: "ends"}
		flow.Repeat(ctx, time.Second, outage, func(context.Context) error {
			times = append(times, time.Since(began))
			if len(times) > len(outcomes) {
				stop()
				return errAway // of no account: the loop is over
			}
			return outcomes[len(times)-1]
		}, func(err error) { results = append(results, err) })
		for i, at := range times {
			if want := time.Duration(i) * time.Second; at != want {
				t.Errorf("run %d after %v, want %v", i+1, at, want)
			}
		}
		if !slices.Equal(results, outcomes) {
			t.Errorf("results %v, want %v", results, outcomes)
		}
		var numbers []string
		for _, line := range log.Lines() {
			_, number, _ := strings.Cut(line, " outage_number=")
			numbers = append(numbers, number)
		}
		if len(numbers) != 4 || numbers[0] == "" || numbers[0] != numbers[1] || numbers[2] != numbers[3] || numbers[0] == numbers[2] {
			t.Errorf("the lines have the numbers %q, want two pairs", numbers)
		}
		if got := log.String(); strings.Count(got, "begins") != 2 || strings.Count(got, "ends") != 2 || len(log.Lines()) != 4 {
			t.Errorf("logged:\n%s", got)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if flow.Sleep(ctx, time.Hour) {
		t.Error("a pause in an ended context says that its time passed")
	}
	if !flow.Sleep(t.Context(), time.Nanosecond) {
		t.Error("a pause that ran its time says that it did not")
	}
}
