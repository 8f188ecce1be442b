package readapi_test

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testdb"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) {
	testdb.Main(m, migrations.Up)
}
