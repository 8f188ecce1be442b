package readapi_test

import (
	"encoding/json"
	"regexp"
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
		ID     string `json:"id"`
		Client *struct {
			ID string `json:"id"`
		} `json:"client"`
	}
	err := json.Unmarshal(row, &r)
	if err == nil && r.ID == "" && r.Client != nil {
		return r.Client.ID, nil // a credit is its client's
	}
	return r.ID, err
}

// clientsName matches the name of a row's client.
var clientsName = regexp.MustCompile(`"name":("([^"\\]|\\.)*"|null)`)

// followedRow is what a follower of a list must know of a row. A renamed client moves no row of the
// credit history, so there its name may be an earlier one.
func followedRow(path, row string) string {
	if path == "/v1/credit-history" {
		return clientsName.ReplaceAllString(row, `"name":""`)
	}
	return row
}
