package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connect opens one connection.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg.ConnConfig) //nolint:wrapcheck // the error names the server
}

// ParseConfig reads the URL of a database, as pgxpool.ParseConfig does. Every
// connection has the isolation level that the program is written for, whatever the
// default of the database or the URL says. ParseConfig also
// understands libpq's parameter requirepeer, which the URL of the local PostgreSQL
// has: the account, by name or number, that must run the server behind a Unix
// socket. Each connection checks it, and a server of another account is a
// [PeerError].
func ParseConfig(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	// The program locks rows and reads what others have committed since; at a stricter
	// level, which a database can have as its default, that fails.
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	want, found := cfg.ConnConfig.RuntimeParams["requirepeer"]
	if !found {
		return cfg, nil
	}
	delete(cfg.ConnConfig.RuntimeParams, "requirepeer")
	uid, err := accountID(want)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: requirepeer: %w", err)
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := checkPeer(conn, address, uid); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return cfg, nil
}

func accountID(account string) (int, error) {
	if uid, err := strconv.Atoi(account); err == nil {
		return uid, nil
	}
	u, err := user.Lookup(account)
	if err != nil {
		return 0, fmt.Errorf("look up the account: %w", err)
	}
	return strconv.Atoi(u.Uid) //nolint:wrapcheck // a number on every system with Unix sockets
}

// PeerError reports that the server behind a socket runs under another account
// than the one that the URL names.
type PeerError struct {
	Socket    string
	Want, UID int // the account that the URL names, and the one that runs the server
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("the server at %s is run by uid %d, not by uid %d, so nothing is sent to it", e.Socket, e.UID, e.Want)
}

func checkPeer(conn net.Conn, address string, want int) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%s is not a Unix socket, so it does not tell the server's account, which the URL names with requirepeer", address)
	}
	uid, err := peerUID(local)
	if err != nil {
		return fmt.Errorf("find the account of the server at %s: %w", address, err)
	}
	if uid != want {
		return &PeerError{Socket: address, Want: want, UID: uid}
	}
	return nil
}
