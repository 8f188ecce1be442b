package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// ExplainConnection replaces an error about the address of the database, or about the
// connection to it, by one that names the setting and the address, once, and what to do.
// Other errors stay as they are.
func (e *Env) ExplainConnection(err error) error {
	var (
		form    *pgconn.ParseConfigError
		connect *pgconn.ConnectError
	)
	var pooler *pg.PoolerError
	switch {
	case errors.As(err, &pooler):
		return pooler
	case err == nil || e.Settings.DatabaseURL == "":
		return err
	case errors.As(err, &form):
		return errors.New("DATABASE_URL is no address of a database: want postgres://user:password@host:5432/name, or host=… user=… dbname=…")
	case errors.As(err, &connect):
		c := connect.Config
		return fmt.Errorf("cannot connect to the database %s at %s as %s, which DATABASE_URL names: %w", c.Database, serverOf(c), c.User, causeOf(err))
	}
	return err
}

// serverOf names the server of an address; its password is not shown.
func serverOf(c *pgconn.Config) string {
	network, address := pgconn.NetworkAddress(c.Host, c.Port)
	if network == "unix" {
		return "the socket " + address
	}
	return address
}

// causeOf is the innermost error of those that say something: what PostgreSQL
// answered, or what the network did.
func causeOf(err error) error {
	var (
		answered *pgconn.PgError
		name     *net.DNSError
		number   syscall.Errno
	)
	switch {
	case errors.As(err, &answered):
		return errors.New(answered.Message)
	case errors.As(err, &name):
		return fmt.Errorf("the name %s cannot be looked up: %s", name.Name, name.Err)
	case errors.As(err, &number):
		return number
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("no answer in time")
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}
