package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// percentEncode is the advice for an address that PostgreSQL takes apart differently than its author.
const percentEncode = "percent-encode special characters of a password in an address: @ is %40, / is %2F, # is %23, % is %25, a space is %20"

// ExplainConnection replaces an error about an address of a database, or about a connection to it,
// by one that names the database, the cause and the next step, and no password. setting is the
// setting that has the address, and named says so in the sentence, such as "which DATABASE_URL
// names". It returns nil for an error of another kind.
func ExplainConnection(err error, setting, named string) error {
	if form, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && form != nil {
		return fmt.Errorf("%s is no address of a database: want postgres://user:password@host:5432/name, or host=… user=… dbname=…; %s", setting, percentEncode)
	}
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return nil
	}
	c := connect.Config
	if strings.Contains(c.Host, "@") {
		return fmt.Errorf("%s has an @ too many before its host: %s", setting, percentEncode)
	}
	next, cause := causeOf(err)
	return ConnectionFailed(c.Database, Server(c), c.User, named, cause, fmt.Sprintf(next, setting))
}

// ConnectionFailed is ExplainConnection's error; next is the next step.
func ConnectionFailed(database, server, user, named string, cause error, next string) error {
	return fmt.Errorf("cannot connect to the database %s at %s as %s, %s: %w; %s", database, server, user, named, cause, next)
}

// Server names the server of an address; its password is not shown, not even a part that an @ in it
// made part of the host.
func Server(c *pgconn.Config) string {
	network, address := pgconn.NetworkAddress(c.Host, c.Port)
	if network == "unix" {
		return "the socket " + address
	}
	return address[strings.LastIndex(address, "@")+1:]
}

// causeOf is the innermost error with a cause in it: PostgreSQL's answer, or what the network did. next
// is what to do about it, with a place for the setting.
func causeOf(err error) (next string, cause error) {
	if answered, ok := errors.AsType[*pgconn.PgError](err); ok {
		return cmp.Or(map[string]string{
			"28P01": "correct the user or the password in %s; " + strings.ReplaceAll(percentEncode, "%", "%%"),
			"28000": "correct the user in %s, or let it in in pg_hba.conf",
			"3D000": "create the database, or correct its name in %s",
			"53100": "the disk of the server that %s names is full: add space there",
			"53300": "close connections, or raise max_connections of the server that %s names",
			"57P03": "PostgreSQL at the address in %s starts, stops or recovers: try again, and read its log if that goes on",
		}[answered.Code], "PostgreSQL's log on the server that %s names says more"), errors.New(answered.Message)
	}
	return NetworkCause(err, "PostgreSQL")
}

// NetworkCause is what the network did, as the innermost error with a cause in it. next is what to do
// about it, with a place for the setting that has the address. server is what should run there.
func NetworkCause(err error, server string) (next string, cause error) {
	var (
		name   *net.DNSError
		number syscall.Errno
	)
	network := "check that " + server + " runs there, that %s has the right host and port, and that no firewall is between"
	switch {
	case errors.As(err, &name):
		return "correct the host in %s, or its entry in DNS", fmt.Errorf("the name %s cannot be looked up: %s", name.Name, name.Err)
	case errors.As(err, &number):
		return network, number
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return network, errors.New("no answer in time")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return network, err
}
