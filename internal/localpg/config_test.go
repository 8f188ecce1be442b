package localpg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	durable := Config{DataDir: dataDir(t)}
	opts := defaultOptions()
	opts.settings = map[string]string{"work_mem": "7MB", "jit": "on"}
	s := mustOpenWith(t, durable, opts)
	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "data_checksums": "on",
		"listen_addresses": "", "server_encoding": "UTF8", "timezone": "UTC", "max_connections": "200",
		"shared_buffers": "256MB", "max_wal_size": "2GB",
		"work_mem": "7MB", "jit": "on", // the test's win
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
			h, r := runOpener(t, throwaway(dir))
			b := mustOpen(t, throwaway(dir))
			if b.URL() != r.URL || isOwner(b) {
				t.Error("two servers of one directory")
			}
			query(t, b.URL(), "select 1")
			sockets := b.place.sockets()
			if moved := !strings.Contains(name, "space"); moved != (sockets != b.place.dir) {
				t.Errorf("sockets in %s", sockets)
			}

			// A killed owner leaves the short directory; the next one uses it.
			h.killed(t)
			awaitDone(t, b)
			c := mustOpen(t, throwaway(dir))
			query(t, c.URL(), "select 1")
			mustClose(t, c)
			if _, err := os.Stat(sockets); sockets != c.place.dir && !os.IsNotExist(err) {
				t.Errorf("the short directory after the stop: %v", err)
			}
		})
	}
}

func TestOpenSocketDirectoryIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("deep/", 30)+"end")
	p, err := defaultRootRules().resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.sockets(), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(p.sockets()) })
	if err := os.Chmod(p.sockets(), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(testContext(t), throwaway(dir)); err == nil {
		t.Fatal("the server's socket is in a directory that others can write to")
	}
	wantContains(t, err.Error(), p.sockets(), "can be written to by other accounts", "chmod go-w")
}

func TestSymlinkedDirectoryIsTheSame(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	a := mustOpen(t, throwaway(dir))
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if b := mustOpen(t, throwaway(link)); isOwner(b) || b.URL() != a.URL() {
		t.Error("two names of one directory, two servers")
	}
}
