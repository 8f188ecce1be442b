package rollup_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// TestQuantile: an estimate is in the bucket that the true value is in.
func TestQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.SliceOfN(rapid.IntRange(0, 60_000), 1, 200).Draw(t, "ms")
		q := rapid.SampledFrom([]float64{0.5, 0.95, 1}).Draw(t, "q")
		var l, truth, first, second rollup.Latency
		for i, ms := range millis {
			l.Add(time.Duration(ms) * time.Millisecond)
			half := &first
			if i%2 == 1 {
				half = &second
			}
			half.Add(time.Duration(ms) * time.Millisecond)
		}
		if first.Merge(&second); first != l || l.Count() != int64(len(millis)) {
			t.Fatalf("%v and %v", first, l)
		}
		got := l.Quantile(q)
		var below int64
		truth.Add(got)
		for i, n := range l {
			if truth[i] == 1 || got == time.Minute && i == len(l)-1 {
				if rank := int64(math.Ceil(q * float64(len(millis)))); rank <= below || rank > below+n {
					t.Fatalf("%v of %v: %v is in bucket %d, which has the ranks above %d up to %d", q, millis, got, i, below, below+n)
				}
				return
			}
			below += n
		}
	})
	var none rollup.Latency
	if none.Quantile(0.95) != 0 {
		t.Error("there is a quantile of nothing")
	}
}

// TestRouteClass puts every kind of route into a class.
func TestRouteClass(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"/v1/invoices": rollup.RouteList, "/v1/invoices/{id}": rollup.RouteObject, "/v1/clients/{id}/credit": rollup.RouteObject,
		"/v1/events": rollup.RouteEvents, "/v1/me": rollup.RouteOther, "": rollup.RouteOther, "/docs": rollup.RouteOther,
	} {
		if got := rollup.RouteClass(route); got != want {
			t.Errorf("%q is of class %s, not %s", route, got, want)
		}
	}
}
