package pg

import (
	"cmp"
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
	return fmt.Errorf("cannot connect to the database %s at %s as %s, %s: %w; %s", c.Database, Server(c), c.User, named, cause, fmt.Sprintf(next, setting))
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
	var (
		answered *pgconn.PgError
		name     *net.DNSError
		number   syscall.Errno
	)
	const network = "check that PostgreSQL runs there, that %s has the right host and port, and that no firewall is between"
	switch {
	case errors.As(err, &answered):
		return cmp.Or(map[string]string{
			"28P01": "correct the user or the password in %s; " + strings.ReplaceAll(percentEncode, "%", "%%"),
			"28000": "correct the user in %s, or let it in in pg_hba.conf",
			"3D000": "create the database, or correct its name in %s",
			"53100": "the disk of the server that %s names is full: add space there",
			"53300": "close connections, or raise max_connections of the server that %s names",
			"57P03": "PostgreSQL at the address in %s starts, stops or recovers: try again, and read its log if that goes on",
		}[answered.Code], "PostgreSQL's log on the server that %s names says more"), errors.New(answered.Message)
	case errors.As(err, &name):
		return "correct the host in %s, or its entry in DNS", fmt.Errorf("the name %s cannot be looked up: %s", name.Name, name.Err)
	case errors.As(err, &number):
		return network, number
	case errors.Is(err, os.ErrDeadlineExceeded):
		return network, errors.New("no answer in time")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return network, err
}
