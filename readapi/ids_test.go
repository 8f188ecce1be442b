package readapi_test

import (
	"encoding/json"
	"testing"
)

// idOf reads the id of a row.
func idOf(t testing.TB, row []byte) string {
	t.Helper()
	var r struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(row, &r); err != nil {
		t.Fatal(err)
	}
	return r.ID
}
