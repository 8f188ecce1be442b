package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// TestWordsAreComplete: each permission, each type of event and each outcome has its words.
func TestWordsAreComplete(t *testing.T) {
	t.Parallel()
	for _, p := range access.AllPermissions() {
		if Permission(p) == "" || PermissionPaths(p) == "" {
			t.Errorf("%s has no words", p)
		}
	}
	for _, r := range route.Table() {
		if r.Permission != "" && !slices.ContainsFunc(strings.Split(PermissionPaths(r.Permission), ", "), func(path string) bool { return r.Path == path || strings.HasPrefix(r.Path, path+"/") }) {
			t.Errorf("%s opens %s, which its words leave out", r.Permission, r.Path)
		}
	}
	for _, typ := range domain.PublicTypes() {
		if Event(typ) == "" || Change(typ) == "" {
			t.Errorf("%s has no words", typ)
		}
	}
	for _, o := range attempt.Outcomes() {
		if Outcome(o) == string(o) {
			t.Errorf("%s has no words", o)
		}
	}
}
