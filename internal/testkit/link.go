package testkit

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
)

// Link makes a proxy before a database, and the address of the database there.
func Link(t testing.TB, database string) (link *badnetwork.Proxy, to string) {
	t.Helper()
	config := Must(pgx.ParseConfig(database))(t)
	upstream := fmt.Sprintf("%s:%d", config.Host, config.Port)
	if strings.HasPrefix(config.Host, "/") {
		upstream = fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	link = Must(badnetwork.Listen(t.Context(), upstream))(t)
	t.Cleanup(func() { _ = link.Close() })
	address := Must(url.Parse(database))(t)
	query := address.Query()
	host, port, err := net.SplitHostPort(link.Address())
	if err != nil {
		t.Fatal(err)
	}
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	query.Del("requirepeer") // which is of sockets
	address.RawQuery = query.Encode()
	return link, address.String()
}
