package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// Config says where the server lives and how it runs.
type Config struct {
	// DataDir is the data directory, absolute or relative to the working
	// directory; it is made if it does not exist. Started by root, another
	// directory may be used, see [Server.DataDir].
	DataDir string

	// Logger receives what a person should know: which directory is used
	// instead of DataDir, that PostgreSQL is being installed. Nil discards it.
	Logger *slog.Logger

	// Throwaway gives up durability for speed. A crash of the machine destroys
	// the data. For tests only.
	Throwaway bool

	// RemoveOnStop deletes the server's files, and DataDir if nothing else is
	// in it, once the server has stopped. It needs Throwaway. The keeper does
	// it, so a test process that is killed leaves nothing behind either.
	RemoveOnStop bool

	// Settings are further settings of postgresql.conf; they win over this
	// package's own. Only the user that starts the server decides them.
	Settings map[string]string
}

// Server is one user's hold on the server of a data directory.
type Server struct {
	url     string
	dataDir string
	conn    io.ReadWriteCloser
	keeper  int  // process id of the keeper
	ours    bool // this process started the keeper and reaps it

	done    chan struct{} // closed if the server went away unexpectedly
	watched chan struct{} // closed when watch has returned

	mu      sync.Mutex
	leaving bool  // Close was called; guarded by mu
	err     error // why done was closed; guarded by mu
}

// Open starts the server of a data directory, or joins the one that runs
// there. It returns when the server takes connections; ctx bounds the wait, and
// afterwards has no influence. Every opened Server must be closed.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	return open(ctx, cfg, defaultOptions())
}

// URL is the server's address in the form that pgx and libpq take. The
// database and the role are both called ledgerfeed; the role is superuser of
// this cluster.
func (s *Server) URL() string { return s.url }

// DataDir is the directory really used, as an absolute path. It differs from
// Config.DataDir for root, when the server's account cannot enter that one.
func (s *Server) DataDir() string { return s.dataDir }

// Done is closed when the server has gone away although nobody asked it to:
// the postmaster or the keeper ended. A program that sees it cannot heal the
// connection; it ends, and the next Open recovers the data.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why Done was closed, and is nil as long as it is not.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close leaves. If other users remain it returns at once; the last one waits
// until the server has stopped, or until ctx is done, and then the server goes
// on stopping by itself. Closing twice is allowed.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.leaving
	s.leaving = true
	s.mu.Unlock()
	if first {
		// A failing write means that the keeper is gone already, which watch
		// sees too: there is nothing left to leave.
		_, _ = io.WriteString(s.conn, leaveLine)
	}
	select {
	case <-s.watched:
		return nil
	case <-ctx.Done():
		_ = s.conn.Close() // the keeper takes it as having left; ends watch
		<-s.watched
		return fmt.Errorf("wait for PostgreSQL in %s to stop: %w (it goes on stopping by itself)", s.dataDir, context.Cause(ctx))
	}
}

// DatabaseURL is the address of another database of the server at url.
func DatabaseURL(url, database string) string {
	return strings.Replace(url, "/"+databaseName+"?", "/"+database+"?", 1)
}

// errKeeperLeft says that a keeper ended, or was ending, before it took the
// user in. The user tries again: the next keeper may be the one it starts.
var errKeeperLeft = errors.New("the keeper of the local PostgreSQL went away")

// RunKeeperIfAsked turns the process into a keeper if it was started to be
// one, and then never returns. A main function calls it before anything else.
func RunKeeperIfAsked() {
	if _, asked := os.LookupEnv(keeperEnv); !asked {
		return
	}
	os.Exit(runKeeper())
}
