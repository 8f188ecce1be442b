package pg_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// TestExplainConnection: each sentence names the setting and the next step, and no part of a password.
func TestExplainConnection(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://me:hunter2@127.0.0.1:1/x":            "cannot connect to the database x at 127.0.0.1:1 as me, which THE_URL names: connection refused; check that PostgreSQL runs there, that THE_URL has",
		"postgres://me:a@hunter2@127.0.0.1:1/x":          "THE_URL has an @ too many before its host: percent-encode special characters",
		"postgres://me:a hunter2@127.0.0.1:1/x":          "THE_URL is no address of a database: want postgres://",
		"postgres://me:hunter2@name.invalid/x":           "correct the host in THE_URL",
		"host=127.0.0.1 port=1 user=me password=hunter2": "as me, which THE_URL names: connection refused",
	} {
		conn, err := pg.Connect(t.Context(), url)
		if err == nil {
			t.Fatal("connected", conn)
		}
		got := pg.ExplainConnection(err, "THE_URL", "which THE_URL names")
		if got == nil || !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "hunter2") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := pg.ExplainConnection(errors.New("division by zero"), "THE_URL", ""); got != nil {
		t.Errorf("%q for an error of another kind", got)
	}
}
