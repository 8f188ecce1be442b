package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeInstallation makes a bin directory whose postgres says a version.
func fakeInstallation(t *testing.T, bin, version string) {
	t.Helper()
	for _, name := range []string{"postgres", "initdb"} {
		writeScript(t, filepath.Join(bin, name), fmt.Sprintf("echo 'postgres (PostgreSQL) %s'", version))
	}
}

// writeScript makes a program of the shell's.
func writeScript(t *testing.T, path, line string) {
	t.Helper()
	if err := writeFile(path, strings.NewReader("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFindPrograms(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(dataDir(t))
	bin := func(version string) string { return filepath.Join(base, "lib", version, "bin") }
	fakeInstallation(t, bin("9.6"), "9.6.24")
	fakeInstallation(t, bin("14"), "14.11")
	fakeInstallation(t, bin("15"), "15.18 (Debian 15.18-0+deb12u1)")
	fakeInstallation(t, bin("16"), "16beta1")
	fakeInstallation(t, bin("101"), "101.2") // not before 16 in the alphabet
	linked := filepath.Join(base, "linked")
	if err := os.MkdirAll(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin("15"), "postgres"), filepath.Join(linked, "postgres")); err != nil {
		t.Fatal(err)
	}
	asks := filepath.Join(base, "asks")
	writeScript(t, filepath.Join(asks, "pg_config"), "echo "+bin("16"))
	everywhere := []string{filepath.Join(base, "lib", "*", "bin")}
	p, err := defaultRootRules().resolve(filepath.Join(base, "db"))
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name  string
		s     search
		major int
		want  string // the bin directory; empty: none
	}{
		{"highest of the usual directories", search{Globs: everywhere}, 0, bin("101")},
		{"PATH before them, through a link", search{Path: linked, Globs: everywhere}, 0, bin("15")},
		{"pg_config before them", search{Path: asks, PgConfig: true, Globs: everywhere}, 0, bin("16")},
		{"pg_config not asked", search{Path: asks, Globs: everywhere}, 0, bin("101")},
		{"too old in PATH", search{Path: bin("14"), Globs: everywhere}, 0, bin("101")},
		{"the cluster's major", search{Path: bin("101"), Globs: everywhere}, 15, bin("15")},
		{"none of the cluster's major", search{Globs: everywhere}, 17, ""},
		{"only old ones", search{Path: bin("9.6") + ":" + bin("14")}, 0, ""},
		{"relative directories in PATH do not count", search{Path: "."}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			progs, err := findPrograms(testContext(t), c.s, p, c.major, func(string) {})
			if c.want == "" {
				if err == nil {
					t.Fatalf("found %s", progs.postgres)
				}
				wantContains(t, err.Error(), "DATABASE_URL")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.Dir(progs.postgres); got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnreachableProgramsAreNotUsed(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(dataDir(t))
	bin := filepath.Join(base, "private", "bin")
	fakeInstallation(t, bin, "16.1")
	if err := os.Chmod(filepath.Dir(bin), 0o700); err != nil {
		t.Fatal(err)
	}
	p := place{Account: account{Name: "somebody", UID: os.Geteuid() + 1000, GID: os.Getegid() + 1000}}
	_, err := findPrograms(testContext(t), search{Path: bin}, p, 0, func(string) {})
	if err == nil {
		t.Fatal("the account cannot reach them, but they were chosen")
	}
	wantContains(t, err.Error(), "somebody cannot reach")
}

func TestNothingFoundSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	opts := defaultOptions()
	opts.search = search{Path: dataDir(t)}
	dir := dataDir(t)
	_, err := open(testContext(t), throwaway(dir), opts)
	if err == nil {
		t.Fatal("a server without programs")
	}
	wantContains(t, err.Error(), "PostgreSQL 15 or newer", "apt-get install postgresql", "dnf install postgresql-server", "brew install postgresql@", "DATABASE_URL")
}
