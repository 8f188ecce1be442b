package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// TestAgain: what the database rolled back because of others is run again, for a bounded number
// of turns and until the caller has gone; nothing else is.
func TestAgain(t *testing.T) {
	t.Parallel()
	deadlock := fmt.Errorf("lock: %w", &pgconn.PgError{Code: "40P01"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		errs []error // of the turns; the last one stays
		runs int
	}{
		"at once":                  {t.Context(), []error{nil}, 1},
		"after two deadlocks":      {t.Context(), []error{deadlock, deadlock, nil}, 3},
		"always a deadlock":        {t.Context(), []error{deadlock}, 30},
		"another error":            {t.Context(), []error{deadlock, errors.New("x")}, 2},
		"a serialization failure":  {t.Context(), []error{&pgconn.PgError{Code: "40001"}, nil}, 2},
		"a lock that did not come": {t.Context(), []error{&pgconn.PgError{Code: "55P03"}}, 1},
		"a caller who has gone":    {ended, []error{deadlock}, 1},
	} {
		runs := 0
		err := pg.Again(c.ctx, func() error {
			runs++
			return c.errs[min(runs, len(c.errs))-1]
		})
		if runs != c.runs || !errors.Is(err, c.errs[len(c.errs)-1]) {
			t.Errorf("%s: %d runs, want %d: %v", name, runs, c.runs, err)
		}
	}
}
