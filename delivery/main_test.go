package delivery

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	runChildIfAsked()
	testdb.Main(m, migrations.Up)
}
