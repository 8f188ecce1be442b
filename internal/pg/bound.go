package pg

import (
	"fmt"
	"strconv"
)

// MaxConns is the bound on connections that a URL has as pool_max_conns; 0: none.
func MaxConns(url string) (int, error) {
	text := writtenIn(url, "pool_max_conns")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < LeastConns {
		return 0, fmt.Errorf("pool_max_conns in DATABASE_URL is %q: want a number of connections, %d or more, such as 40", text, LeastConns)
	}
	return n, nil
}

// LeastConns is how many connections a process needs at least: with fewer, a command could
// wait for itself.
const LeastConns = 4
