package consolebench

import (
	"context"
	"io"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// TestPages: the console of the benchmark serves the pages of its sample.
func TestPages(t *testing.T) {
	t.Parallel()
	o := &measure.Options{ServerURL: testkit.EmptyDatabase(t), Progress: io.Discard}
	err := measure.InDatabase(t.Context(), o, func(ctx context.Context, db *measure.Database) error {
		s, err := serve(db)
		if err != nil {
			return err
		}
		defer s.server.Close()
		v, err := s.fill(ctx, "acme", 50)
		if err != nil {
			return err
		}
		for _, path := range v.addresses {
			if _, err := v.visit(ctx, path); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
