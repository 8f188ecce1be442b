package replica

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Address is where one replica is reached.
type Address struct {
	URL  string
	Name string // host:port, for people and metrics
}

// MaxReplicas is the most addresses.
const MaxReplicas = 16

// Form is the form of the text that ParseAddresses reads, for its writers.
const Form = "addresses such as postgres://user:password@replica1:5432/name, separated by blanks, at most 16, each of one server and not twice"

// ParseAddresses reads addresses that are separated by blanks or line ends. Each names
// one server: one that led to several would make what one of them has shown be missing on
// another.
func ParseAddresses(text string) ([]Address, error) {
	var list []Address
	for _, url := range strings.Fields(text) {
		if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
			return nil, errors.New("an address must begin with postgres://")
		}
		cfg, err := pgconn.ParseConfig(url)
		if err != nil {
			return nil, errors.New("an address cannot be read") // the error may show a password
		}
		if len(cfg.Fallbacks) > 0 && slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port }) {
			return nil, fmt.Errorf("the address of %s names several servers: want one address for each", cfg.Host)
		}
		name := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
		if slices.ContainsFunc(list, func(a Address) bool { return a.Name == name }) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		list = append(list, Address{URL: url, Name: name})
	}
	if len(list) > MaxReplicas {
		return nil, fmt.Errorf("there are %d addresses, and may be %d", len(list), MaxReplicas)
	}
	return list, nil
}
