package localpg

import (
	"fmt"
	"log/slog"
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
	base := t.TempDir()
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

	for _, c := range []struct {
		name  string
		s     Search
		major int
		want  string // the bin directory; empty: none
	}{
		{"highest of the usual directories", Search{Globs: everywhere}, 0, bin("101")},
		{"PATH before them, through a link", Search{Path: linked, Globs: everywhere}, 0, bin("15")},
		{"pg_config before them", Search{Path: asks, PgConfig: true, Globs: everywhere}, 0, bin("16")},
		{"pg_config not asked", Search{Path: asks, Globs: everywhere}, 0, bin("101")},
		{"too old in PATH", Search{Path: bin("14"), Globs: everywhere}, 0, bin("101")},
		{"the cluster's major", Search{Path: bin("101"), Globs: everywhere}, 15, bin("15")},
		{"none of the cluster's major", Search{Globs: everywhere}, 17, ""},
		{"only old ones", Search{Path: bin("9.6") + ":" + bin("14")}, 0, ""},
		{"relative directories in PATH do not count", Search{Path: "."}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			progs, err := Find(t.Context(), c.s, Wanted{Major: c.major, MayReach: anywhere}, slog.New(slog.DiscardHandler))
			if c.want == "" {
				if err == nil {
					t.Fatalf("found %s", progs.Postgres)
				}
				wantContains(t, err.Error(), "DATABASE_URL")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.Dir(progs.Postgres); got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnreachableProgramsAreNotUsed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	bin := filepath.Join(base, "private", "bin")
	fakeInstallation(t, bin, "16.1")
	w := Wanted{Account: "somebody", MayReach: func(string) bool { return false }}
	_, err := Find(t.Context(), Search{Path: bin}, w, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("the account cannot reach them, but they were chosen")
	}
	wantContains(t, err.Error(), "somebody cannot reach")
}

func anywhere(string) bool { return true }
