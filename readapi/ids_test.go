package readapi_test

import (
	"encoding/json"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// idOf reads the id of a row.
func idOf(t testing.TB, row []byte) string {
	t.Helper()
	return testkit.Must(decodeID(row))(t)
}

func decodeID(row []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(row, &r)
	return r.ID, err
}
