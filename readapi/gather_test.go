package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestGatherAnswersEach: each of many questions gets its own answer, in fewer rounds
// than there are questions, and no more rounds are under way than may be.
func TestGatherAnswersEach(t *testing.T) {
	t.Parallel()
	const callers, each, most = 50, 100, 3
	var under, rounds, tooMany atomic.Int64
	g := readapi.NewGather(most, func(_ context.Context, questions []*int) {
		if under.Add(1) > most {
			tooMany.Add(1)
		}
		defer under.Add(-1)
		rounds.Add(1)
		for _, q := range questions {
			*q = -*q
		}
	})
	group, ctx := errgroup.WithContext(t.Context())
	for caller := range callers {
		group.Go(func() error {
			for i := range each {
				want := caller*each + i + 1
				q := want
				if err := g.Put(ctx, &q); err != nil {
					return err
				}
				if q != -want {
					return fmt.Errorf("%d is answered with %d", want, q)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if tooMany.Load() > 0 {
		t.Errorf("more than %d rounds were under way", most)
	}
	if n := rounds.Load(); n >= callers*each {
		t.Errorf("%d rounds for %d questions", n, callers*each)
	}
}

// TestGatherGoesOn: who gives up waiting hinders nobody, and a panic while asking comes
// out where the questions came from, and nowhere else.
func TestGatherGoesOn(t *testing.T) {
	t.Parallel()
	asking, goOn := make(chan struct{}), make(chan struct{})
	var faulty atomic.Bool
	g := readapi.NewGather(1, func(_ context.Context, questions []*int) {
		asking <- struct{}{}
		<-goOn
		if faulty.Load() {
			panic("a bug")
		}
		for _, q := range questions {
			*q++
		}
	})
	put := func(ctx context.Context, q *int) (err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = fmt.Errorf("fault: %v", fault)
			}
		}()
		return g.Put(ctx, q)
	}
	var (
		group sync.WaitGroup
		errs  [3]error
		qs    [3]int
	)
	ctx, giveUp := context.WithCancel(t.Context())
	group.Go(func() { errs[0] = put(ctx, &qs[0]) })
	<-asking
	giveUp()
	group.Wait()
	if !errors.Is(errs[0], context.Canceled) {
		t.Errorf("who gave up heard %v", errs[0])
	}
	faulty.Store(true)
	group.Go(func() { errs[1] = put(t.Context(), &qs[1]) })
	goOn <- struct{}{} // ends the first round, with a panic that nobody waits for
	<-asking
	goOn <- struct{}{}
	group.Wait()
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "a bug") || !strings.Contains(errs[1].Error(), "gather_test.go") {
		t.Errorf("a panic came out as %v", errs[1])
	}
	faulty.Store(false)
	group.Go(func() { errs[2] = put(t.Context(), &qs[2]) })
	<-asking
	goOn <- struct{}{}
	group.Wait()
	if errs[2] != nil || qs[2] != 1 {
		t.Errorf("afterwards: %d, %v", qs[2], errs[2])
	}
}
