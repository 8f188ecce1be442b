package console

import (
	"context"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testdb.Main(m, func(ctx context.Context, url string) error {
		_, err := migrations.Up(ctx, url)
		return err
	})
}
