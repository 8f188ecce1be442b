//go:build unix

package localpg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

var errNotReady = errors.New("the server is not ready")

// connect opens a connection whose application_name shows this process's id to other programs.
func (p place) connect(ctx context.Context) (*pgx.Conn, error) {
	return pg.Connect(ctx, p.url()+"&application_name="+useName+strconv.Itoa(os.Getpid()))
}

// useName is the prefix of every such application_name; the process id follows.
const useName = "ledgerfeed-use-by-process-"

// noDatabase is PostgreSQL's error code for a database that does not exist.
const noDatabase = "3D000"

// unavailable reports whether the server said that it is starting or stopping.
func unavailable(said *pgconn.PgError) bool {
	return strings.HasPrefix(said.Code, "57P0") // operator intervention
}

// final reports whether waiting cannot cure a failure to join: the server is not the expected one,
// or it does not let this account in.
func final(err error) bool {
	var peer *pg.PeerError
	if errors.As(err, &peer) || errors.Is(err, fs.ErrPermission) {
		return true
	}
	var said *pgconn.PgError
	return errors.As(err, &said) && !unavailable(said) &&
		said.Code != noDatabase && // the owner is creating it
		said.Code != "53300" // too many connections
}
