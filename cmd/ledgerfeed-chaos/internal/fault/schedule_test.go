//go:build linux

package fault

import (
	"slices"
	"testing"
)

// first returns the first faults of a seed, without what they point at.
func first(seed uint64, n int, kinds []*Kind) (list []Plan) {
	for p := range Schedule(seed, kinds, 1) {
		if list = append(list, p); len(list) == n {
			break
		}
	}
	return list
}

// The same seed gives the same faults, another seed others, and every kind comes.
func TestScheduleFollowsTheSeed(t *testing.T) {
	t.Parallel()
	kinds := slices.DeleteFunc(Kinds(), func(k *Kind) bool { return k.Name == "upgrade" })
	one := first(7, 500, kinds)
	if !slices.Equal(one, first(7, 500, kinds)) {
		t.Error("the same seed gives other faults")
	}
	if slices.Equal(one, first(8, 500, kinds)) {
		t.Error("another seed gives the same faults")
	}
	seen := map[string]bool{}
	for _, p := range one {
		seen[p.Kind.Name] = true
		if p.Lasts < p.Kind.Shortest || p.Lasts > max(p.Kind.Longest, p.Kind.Shortest) || p.After <= 0 {
			t.Errorf("%s lasts %v after %v", p.Kind.Name, p.Lasts, p.After)
		}
	}
	for _, k := range kinds {
		if !seen[k.Name] {
			t.Errorf("%s does not come in 500 faults", k.Name)
		}
	}
}

// A schedule of one kind, and the end of one without any.
func TestScheduleOfFewKinds(t *testing.T) {
	t.Parallel()
	one := []*Kind{{Name: "only", Weight: 1}}
	for _, p := range first(1, 5, one) {
		if p.Kind != one[0] {
			t.Errorf("%s came", p.Kind.Name)
		}
	}
	early := &Kind{Name: "early", First: true}
	for i, p := range first(1, 5, append(one, early)) {
		if want := map[bool]*Kind{true: early, false: one[0]}[i == 0]; p.Kind != want {
			t.Errorf("number %d is %s, want %s", p.Number, p.Kind.Name, want.Name)
		}
	}
	if got := first(1, 5, nil); got != nil {
		t.Errorf("without kinds %d faults came", len(got))
	}
}
