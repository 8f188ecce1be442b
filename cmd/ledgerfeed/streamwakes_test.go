package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStreamWakes: an entry of append --stream wakes the processes that serve when it is
// appended, and not when the input ends.
func TestStreamWakes(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "a pooler passes no notifications on")
	url := testkit.NewDatabase(t)
	listening := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer listening.Close(t.Context())
	testkit.Must(listening.Exec(t.Context(), `LISTEN ledgerfeed_appended`))(t)
	c := command(t, url, "append", "--stream")
	input, lines := io.Pipe()
	c.Stdin = input
	p := startProcess(t, c)
	for i := range 2 {
		testkit.Must(io.WriteString(lines, `{"workspace_id":"acme","type":"invoice.reversed","data":{"invoice_id":"in_`+strings.Repeat("x", i+1)+`"}}`+"\n"))(t)
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		told, err := listening.WaitForNotification(waiting)
		cancel()
		if err != nil || !strings.HasSuffix(told.Payload, " acme") {
			t.Fatalf("entry %d: %+v %v", i+1, told, err)
		}
	}
	_ = lines.Close()
	if code := p.wait(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, p.log)
	}
}
