package copying_test

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}
