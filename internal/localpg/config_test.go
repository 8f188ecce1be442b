package localpg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	durable := Config{DataDir: dataDir(t), Settings: map[string]string{"work_mem": "7MB", "jit": "on"}}
	s := mustOpen(t, durable)
	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "data_checksums": "on",
		"listen_addresses": "", "server_encoding": "UTF8", "timezone": "UTC", "max_connections": "200",
		"shared_buffers": "256MB", "max_wal_size": "2GB",
		"work_mem": "7MB", "jit": "on", // the caller's win
	} {
		if got := query(t, s.URL(), "select current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if got := query(t, s.URL(), "select datcollate || ' ' || datctype from pg_database where datname = current_database()"); got != "C C" {
		t.Errorf("locale %q, want C", got)
	}
	if got := query(t, s.URL(), "select current_database() || ' ' || current_user || ' ' || rolsuper from pg_roles where rolname = current_user"); got != "ledgerfeed ledgerfeed true" {
		t.Errorf("database, role, superuser = %s", got)
	}
	info, err := os.Stat(filepath.Join(durable.DataDir, runName))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory %v, %v; want mode 0700", info.Mode(), err)
	}

	s = mustOpen(t, throwaway(dataDir(t)))
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := query(t, s.URL(), "select current_setting('"+setting+"')"); got != "off" {
			t.Errorf("throwaway: %s = %q, want off", setting, got)
		}
	}
}

func TestEnvironmentDoesNotMatter(t *testing.T) {
	for _, name := range []string{"PGDATA", "PGPORT", "PGHOST", "PGDATABASE", "PGOPTIONS", "LC_ALL", "TZ"} {
		t.Setenv(name, "nonsense")
	}
	dir := dataDir(t)
	s := mustOpen(t, throwaway(dir))
	for _, name := range []string{"PGOPTIONS", "PGDATABASE"} { // the test's own connection reads these
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	query(t, s.URL(), "select 1")
}

func TestUnusualPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"with space+plus%25 and ünïcode",
		`comma, "quotes" and \ backslash`,
		strings.Repeat("deep/", 30) + "end", // longer than a socket's path may be
	} {
		t.Run(name[:4], func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(dataDir(t), name)
			a := mustOpen(t, throwaway(dir))
			b := mustOpen(t, throwaway(dir))
			if a.keeper != b.keeper {
				t.Error("two keepers in one directory")
			}
			query(t, b.URL(), "select 1")
			p, err := defaultRootRules().resolve(dir)
			if err != nil {
				t.Fatal(err)
			}
			sockets := filepath.Dir(p.keeperSocket())
			if moved := !strings.Contains(name, "space"); moved != (sockets != p.Dir) {
				t.Errorf("sockets in %s", sockets)
			}

			// A killed keeper leaves the short directory; the next one uses it.
			kill(t, a.keeper)
			awaitDone(t, a)
			awaitDone(t, b)
			c := mustOpen(t, throwaway(dir))
			if got := filepath.Dir(p.keeperSocket()); got != sockets {
				t.Errorf("sockets moved from %s to %s", sockets, got)
			}
			mustClose(t, c)
			if _, err := os.Stat(sockets); sockets != p.Dir && !os.IsNotExist(err) {
				t.Errorf("the short directory after the stop: %v", err)
			}
		})
	}
}

func TestStrangersSocketDirectoryIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("deep/", 30)+"end")
	mustClose(t, mustOpen(t, throwaway(dir)))
	planted := dataDir(t)
	if err := os.Mkdir(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, socketsAtName), []byte(planted+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, throwaway(dir))
	if strings.Contains(s.URL(), filepath.Base(filepath.Dir(planted))) {
		t.Errorf("the server listens in a directory open to all: %s", s.URL())
	}
}

func TestSymlinkedDirectoryIsTheSame(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	a := mustOpen(t, throwaway(dir))
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if b := mustOpen(t, throwaway(link)); b.keeper != a.keeper {
		t.Error("two names of one directory, two keepers")
	}
}
