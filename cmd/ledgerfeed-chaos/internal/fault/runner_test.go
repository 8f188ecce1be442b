//go:build linux

package fault

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"
)

// plans are a schedule of faults about one thing each, without pauses.
func plans(things ...string) iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		for i, thing := range things {
			kind := &Kind{Name: thing, aim: func(*Stage, *Plan) target { return target{claims: []string{thing}} }}
			if !yield(Plan{Number: i + 1, Kind: kind}) {
				return
			}
		}
	}
}

// Faults about one thing come one after the other, in their order, and do not hold up
// those about other things; there are never more at once than the bound.
func TestRunnerKeepsTheOrderOfEachThing(t *testing.T) {
	t.Parallel()
	var (
		mu      sync.Mutex
		begun   []int
		others  = make(chan struct{})
		current = map[string]int{}
		most    int
	)
	r := &Runner{For: time.Minute, Began: time.Now(), AtOnce: 2}
	r.do = func(_ context.Context, p *Plan, _ target) {
		mu.Lock()
		begun = append(begun, p.Number)
		current[p.Kind.Name]++
		if current[p.Kind.Name] > 1 {
			t.Errorf("two faults about %s at once", p.Kind.Name)
		}
		most = max(most, current["a"]+current["b"])
		if p.Number == 5 {
			close(others)
		}
		mu.Unlock()
		if p.Number == 1 {
			<-others // numbers 4 and 5 come although 1 goes on and 2 and 3 wait for it
		}
		mu.Lock()
		current[p.Kind.Name]--
		mu.Unlock()
	}
	r.Run(t.Context(), t.Context(), plans("a", "a", "a", "b", "b"))
	about := func(numbers ...int) []int {
		return slices.DeleteFunc(slices.Clone(begun), func(n int) bool { return !slices.Contains(numbers, n) })
	}
	if a, b := about(1, 2, 3), about(4, 5); !slices.Equal(a, []int{1, 2, 3}) || !slices.Equal(b, []int{4, 5}) || most > 2 {
		t.Errorf("begun %v, at most %d at once", begun, most)
	}
}

// When enough is known no other fault begins, and the one that is under way is not cut off.
func TestAFaultThatHasBegunIsBroughtToItsEnd(t *testing.T) {
	t.Parallel()
	until, enough := context.WithCancel(t.Context())
	r := &Runner{For: time.Minute, Began: time.Now(), AtOnce: 2}
	var begun []int
	r.do = func(ctx context.Context, p *Plan, _ target) {
		begun = append(begun, p.Number) // one at a time: all are about one thing
		enough()
		if err := ctx.Err(); err != nil {
			t.Errorf("the fault is cut off: %v", err)
		}
	}
	r.Run(t.Context(), until, plans("a", "a", "a"))
	if !slices.Equal(begun, []int{1}) {
		t.Errorf("begun %v, want the first alone", begun)
	}
}
