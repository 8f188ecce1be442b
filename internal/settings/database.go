package settings

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// connections is a number of connections to the database.
type connections int

// UnmarshalText reads the number.
func (c *connections) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < pg.LeastConns {
		return fmt.Errorf("want a number from %d on", pg.LeastConns)
	}
	*c = connections(n)
	return nil
}

// pooler is the mode of the connection pooler in front of the database.
type pooler string

// UnmarshalText reads the mode.
func (p *pooler) UnmarshalText(text []byte) error {
	if *p = pooler(text); *p != pg.PoolerTransaction {
		return errors.New("want " + pg.PoolerTransaction)
	}
	return nil
}
