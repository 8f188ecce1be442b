package delivery_test

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	runChildIfAsked()
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants, testkit.Waits)
}
