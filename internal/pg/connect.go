package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/user"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connect opens one connection.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) { return ConnectWith(ctx, url, nil) }

// ConnectWith opens one connection with some settings.
func ConnectWith(ctx context.Context, url string, settings map[string]string) (*pgx.Conn, error) {
	cfg, err := ConnConfig(url, settings)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	return conn, asPoolerError(err)
}

// ConnConfig is the configuration of a single connection with some settings.
func ConnConfig(url string, settings map[string]string) (*pgx.ConnConfig, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	withoutTimeouts(cfg.ConnConfig)
	if _, err := settle(cfg.ConnConfig); err != nil {
		return nil, err
	}
	return cfg.ConnConfig, nil
}

// ownSettings are the settings that the program is written for. Every connection has
// them, whatever the defaults of the database or the URL say.
func ownSettings() map[string]string {
	return map[string]string{
		// The program locks rows and reads what others have committed since; at a stricter
		// level, that fails.
		"default_transaction_isolation": "read committed",
		// Texts are sent as they are, in UTF-8. In a database of another encoding, or with
		// another default, the server would take them for something else, and the log
		// would keep that for good.
		"client_encoding": "UTF8",
		// A backslash in a statement's text is a backslash.
		"standard_conforming_strings": "on",
		// Connections that wait for notifications, or in a pool, are idle for long.
		"idle_session_timeout": "0",
	}
}

// ParseConfig reads the URL of a database, as pgxpool.ParseConfig does, and adds the
// settings that the program is written for. ParseConfig also
// understands libpq's parameter requirepeer, which the URL of the local PostgreSQL
// has: the account, by name or number, that must run the server behind a Unix
// socket. Each connection checks it, and a server of another account is a
// [PeerError]. Opening a connection takes 30 seconds at most, unless the URL has
// another connect_timeout.
func ParseConfig(url string) (*pgxpool.Config, error) {
	if err := checkSSLFiles(url); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	NoticeSilence(&cfg.ConnConfig.Config)
	for name, value := range ownSettings() {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	if mode := cfg.ConnConfig.RuntimeParams[poolerParameter]; mode != "" && mode != PoolerTransaction {
		return nil, fmt.Errorf("DATABASE_URL: %s is %q: want %s", poolerParameter, mode, PoolerTransaction)
	}
	delete(cfg.ConnConfig.RuntimeParams, poolerParameter)
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
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return 0, fmt.Errorf("the account's number, where there are Unix sockets: %w", err)
	}
	return uid, nil
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
