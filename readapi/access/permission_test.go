package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want, problem string }{
		{text: "invoices:read", want: "invoices:read"},
		{text: " pay:read , invoices:read,pay:read", want: "invoices:read,pay:read"},
		{text: "margin:read,pay:read,events:read", want: "events:read,pay:read,margin:read"},
		{text: "", problem: "name at least one permission; allowed are invoices:read, time_entries:read, clients:read, " +
			"credits:read, contractors:read, payments:read, events:read, pay:read, margin:read"},
		{text: "invoices:write,pay:read,all", problem: `unknown permissions "invoices:write", "all"; allowed are `},
		{text: "invoices:read,", problem: `unknown permission ""; allowed are `},
		{text: "Invoices:read", problem: `unknown permission "Invoices:read"; allowed are `},
		{text: "invoices:read,margin:read", problem: "margin:read needs pay:read on the same key"},
	} {
		set, err := ParseScopes(c.text)
		if c.problem == "" {
			if err != nil || set.String() != c.want {
				t.Errorf("ParseScopes(%q) = %q, %v; want %q", c.text, set, err, c.want)
			}
			continue
		}
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "scopes" || !strings.HasPrefix(invalid.Problem, c.problem) {
			t.Errorf("ParseScopes(%q): %v; want the problem %q", c.text, err, c.problem)
		}
	}
}

func TestPermissionsAreDistinct(t *testing.T) {
	t.Parallel()
	all := AllPermissions()
	for i, p := range all {
		set := PermissionsOf(p)
		for j, q := range all {
			if set.Has(q) != (i == j) {
				t.Errorf("the set of %s: Has(%s) = %t", p, q, set.Has(q))
			}
		}
	}
	if PermissionsOf(all...).Has("admin") || PermissionsOf(all...).Has("") {
		t.Error("a permission that does not exist is in a set")
	}
}

func TestPermissionsInOrder(t *testing.T) {
	t.Parallel()
	reversed := AllPermissions()
	slices.Reverse(reversed)
	var want []string
	for _, p := range AllPermissions() {
		want = append(want, string(p))
	}
	if got := PermissionsOf(reversed...).Strings(); !slices.Equal(got, want) {
		t.Errorf("Strings() = %v; want %v", got, want)
	}
	if got := Permissions(0).Strings(); got == nil || len(got) != 0 {
		t.Errorf("Strings() of the empty set = %#v; want an empty slice", got)
	}
}

func TestStoredPermissionsOfANewerProgram(t *testing.T) {
	t.Parallel()
	if got := storedPermissions([]string{"invoices:read", "tax:read"}); got != PermissionsOf(InvoicesRead) {
		t.Errorf("got %s", got)
	}
}
