package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestPlacesAreFair: whatever is taken, given back and refused, no group takes more than it may,
// what is reserved for the others stays free while the server allows that, uses that take minutes
// leave half of the rest, and nobody waits beside a place that it could have.
func TestPlacesAreFair(t *testing.T) {
	t.Parallel()
	type step struct {
		group               int
		takes, gives, first bool
	}
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(rt, "connections")
		groups := make([]*group, rapid.IntRange(1, 4).Draw(rt, "groups"))
		left := most
		for i := range groups {
			least := rapid.IntRange(0, left).Draw(rt, "least")
			left -= least
			groups[i] = &group{least: least, most: max(1, least) + rapid.IntRange(0, 4).Draw(rt, "more"), long: rapid.Bool().Draw(rt, "long")}
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.IntRange(0, len(groups)-1).Draw(rt, "group"), rapid.Bool().Draw(rt, "takes"), rapid.IntRange(0, 9).Draw(rt, "gives") > 0,
				rapid.Bool().Draw(rt, "first"),
			}
		}), 1, 40).Draw(rt, "steps")
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			p := newPlaces(most)
			defer p.close()
			for _, g := range groups {
				p.add(g)
			}
			ctx, end := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			var held []*group
			got := make(chan *group, len(steps))
			refused := false
			for _, s := range steps {
				switch g := groups[s.group]; {
				case s.takes:
					waiting.Go(func() {
						if p.take(ctx, g, s.first) == nil {
							got <- g
						}
					})
				case s.gives && len(held) > 0:
					p.give(held[0])
					held = held[1:]
				case !s.gives:
					p.refused(g, p.taken)
					refused = true
				}
				synctest.Wait()
				for len(got) > 0 {
					held = append(held, <-got)
				}
				if wrong = cmp.Or(wrong, checkPlaces(p, len(held), refused)); wrong != nil {
					break
				}
			}
			end()
			waiting.Wait()
			close(got)
			for g := range got {
				held = append(held, g)
			}
			for _, g := range held {
				p.give(g)
			}
			if p.taken != 0 {
				wrong = cmp.Or(wrong, fmt.Errorf("%d places are taken in the end", p.taken))
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

func checkPlaces(p *places, held int, refused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken != held {
		return fmt.Errorf("%d places are counted, %d are taken", p.taken, held)
	}
	kept, least, long := 0, 0, 0
	for _, g := range p.groups {
		kept += max(0, g.least-g.used)
		least += g.least
		if g.long {
			long += max(0, g.used-g.least)
		}
		if g.used > g.most {
			return fmt.Errorf("a group has %d places of %d", g.used, g.most)
		}
		if len(g.waiting) > 0 && p.fits(g) {
			return errors.New("somebody waits beside a place")
		}
	}
	if !refused && p.most-p.taken < kept {
		return fmt.Errorf("%d places are reserved, and %d of %d are taken", kept, p.taken, p.most)
	}
	if !refused && long > max(1, (p.most-least)/2) {
		return fmt.Errorf("uses that take minutes have %d of %d places that are not reserved", long, p.most-least)
	}
	return nil
}

// TestTheNextPlaceIsForWhoHasFewest: among those who wait, it is for the group that uses the
// fewest beyond those that are kept for it, and in a group for who has waited longest.
func TestTheNextPlaceIsForWhoHasFewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3)
		many, few := &group{most: 3}, &group{most: 3}
		p.add(many)
		p.add(few)
		var order []string
		var mu sync.Mutex
		var waiting sync.WaitGroup
		take := func(g *group, name string) {
			waiting.Go(func() {
				if p.take(t.Context(), g, false) == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
				}
			})
			synctest.Wait()
		}
		for range 3 {
			take(many, "held")
		}
		take(many, "many 1")
		take(few, "few 1")
		take(many, "many 2")
		for range 3 {
			p.give(many)
			synctest.Wait()
		}
		waiting.Wait()
		want := []string{"held", "held", "held", "few 1", "many 1", "many 2"}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("the order is %q, want %q", order, want)
			}
		}
	})
}

// TestRefusedConnectionsAreTriedAgain: while the server has no room there are as many places
// as connections, and one more from time to time, until all are there.
func TestRefusedConnectionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(4)
		g := &group{most: 4}
		p.add(g)
		if err := p.take(t.Context(), g, false); err != nil {
			t.Fatal(err)
		}
		p.refused(g, 1)
		tries := 0
		for range 3 {
			if err := p.take(t.Context(), g, true); err != nil {
				t.Fatal(err)
			}
			tries++
		}
		if w := p.waitsOf(g); w.Refused != 1 || w.Count != 3 || w.Time != 3*growthPause || tries != 3 {
			t.Errorf("%+v after %d", w, tries)
		}
		p.close()
	})
}
