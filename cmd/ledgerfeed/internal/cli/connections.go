package cli

import (
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Connections is how many connections to the database this process may have, all pools and
// single ones together: most, or what LEDGERFEED_CONNECTIONS allows or pool_max_conns in
// DATABASE_URL, the smallest of them. The error, a UsageError, names what allows fewer
// than least, of which who says what needs them.
func Connections(e *Env, who string, least, most int) (int, error) {
	inURL, err := pg.MaxConns(e.Settings.DatabaseURL)
	if err != nil {
		return 0, &UsageError{err}
	}
	for _, bound := range []struct {
		name string
		n    int
	}{{"LEDGERFEED_CONNECTIONS", int(e.Settings.Connections)}, {"pool_max_conns in DATABASE_URL", inURL}} {
		if bound.n == 0 {
			continue
		}
		if bound.n < least {
			return 0, Usagef("%s is %d: %s needs at least %d connections to the database, and uses up to %d (docs/operations/sizing.md)", bound.name, bound.n, who, least, most)
		}
		most = min(most, bound.n)
	}
	return most, nil
}
