//go:build unix

package replication

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// copyTo copies the server's data while it runs, as pg_basebackup does, which not every
// installation has. What was written meanwhile the copy takes from the log of the server,
// which keeps enough of it.
func (s *Server) copyTo(dir string) {
	s.t.Helper()
	s.Connect("postgres", func(ctx context.Context, conn *pgx.Conn) { // both calls are of one session
		if _, err := conn.Exec(ctx, `SELECT pg_backup_start('copy', true)`); err != nil {
			s.t.Fatal(err)
		}
		s.copyFiles(s.Data, dir)
		var label string
		if err := conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop(false)`).Scan(&label); err != nil {
			s.t.Fatal(err)
		}
		s.write(filepath.Join(dir, "backup_label"), strings.NewReader(label))
	})
}

// ofRunning reports whether a file of a data directory, or what is in a directory there, is
// about the running server.
func ofRunning(name string) bool {
	switch name {
	case "postmaster.pid", "postmaster.opts", "pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_snapshots", "pg_stat_tmp", "pg_subtrans":
		return true
	}
	return false
}

func (s *Server) copyFiles(from, to string) {
	s.t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path) // path is below from
		top, _, _ := strings.Cut(name, string(filepath.Separator))
		switch {
		case errors.Is(err, fs.ErrNotExist): // tables are removed while it runs
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return s.own(filepath.Join(to, name), os.Mkdir(filepath.Join(to, name), 0o700))
		case ofRunning(top):
			return nil
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		s.write(filepath.Join(to, name), file)
		return file.Close()
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// write makes a file of the account that runs the servers.
func (s *Server) write(name string, content io.Reader) {
	s.t.Helper()
	file := testkit.Must(os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600))(s.t)
	_, err := io.Copy(file, content)
	if err := s.own(name, errors.Join(err, file.Close())); err != nil {
		s.t.Fatal(err)
	}
}

// own gives what was made to the account that runs the servers.
func (s *Server) own(name string, err error) error {
	if err != nil {
		return err
	}
	return s.Give(name)
}
