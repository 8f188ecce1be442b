package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// narrowWindow makes the connections of a reader small, so that the service cannot send
// ahead what it has not read.
func narrowWindow(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	return errors.Join(err, set)
}

// begin begins the whole list of time entries from a cursor.
func (r reader) begin(cursor string) io.Reader {
	r.t.Helper()
	address := r.base + "/v1/time-entries?include=removed"
	if cursor != "" {
		address += "&cursor=" + cursor
	}
	req := testkit.Must(http.NewRequestWithContext(r.t.Context(), http.MethodGet, address, http.NoBody))(r.t)
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Accept", "application/x-ndjson")
	transport := &http.Transport{DialContext: (&net.Dialer{Control: narrowWindow}).DialContext, DisableKeepAlives: true, DisableCompression: true}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d", address, answer.StatusCode)
	}
	return answer.Body
}

// take takes a whole list over into what is held, by id, and returns where it goes on.
func (r reader) take(held map[string]string, cursor string) (next string) {
	r.t.Helper()
	lines := bufio.NewScanner(r.begin(cursor))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			ID         string
			Removed    bool
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case row.NextCursor != "":
			next = row.NextCursor
		case row.Removed:
			delete(held, row.ID)
		default:
			held[row.ID] = lines.Text()
		}
	}
	if err := lines.Err(); err != nil || next == "" {
		r.t.Fatalf("the list is not whole: %v", err)
	}
	return next
}

// TestAWholeListFromAProcessThatIsKilled: what was sent of it does not look whole, and with
// the cursor from before, a reader holds the newest state in the end.
func TestAWholeListFromAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	const entries = 3000
	url := testkit.NewDatabase(t)
	add := func(entry func(n int) string) {
		t.Helper()
		var text bytes.Buffer
		for n := range entries {
			if line := entry(n); line != "" {
				text.WriteString(line + "\n")
			}
		}
		name := filepath.Join(t.TempDir(), "entries.ndjson")
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		succeed(t, url, "append", name)
		succeed(t, url, "status", "--wait", "--timeout", "1m")
	}
	recorded := func(hours int, text string) func(int) string {
		return func(n int) string {
			return fmt.Sprintf(`{"workspace_id":"agency","type":"time_entry.recorded","data":{"time_entry_id":"te_%d","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"care","hours":%d,"description":%q,"period":"2026-10","currency":"EUR"}}`,
				n, hours, text)
		}
	}
	succeed(t, url, "workspace", "create", "--id", "agency", "--name", "Agency")
	projecting := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
	serving := startProcess(t, command(t, url, "serve", "--roles", "api", "--no-migrate"))
	read := newReader(t, url, apiOf(serving), "agency", "time_entries:read,pay:read")
	add(recorded(1, "short"))
	held := map[string]string{}
	cursor := read.take(held, "")
	if len(held) != entries {
		t.Fatalf("%d rows", len(held))
	}
	add(recorded(2, strings.Repeat("long ", 800)))

	half := bufio.NewReader(read.begin(cursor))
	for range 100 {
		testkit.Must(half.ReadString('\n'))(t)
	}
	serving.kill()
	rest, err := io.ReadAll(half)
	if err == nil || bytes.Contains(rest, []byte("next_cursor")) {
		t.Errorf("a list of a killed process ends after %d bytes with %v", len(rest), err)
	}

	add(func(n int) string {
		if n%7 != 0 {
			return ""
		}
		return fmt.Sprintf(`{"workspace_id":"agency","type":"time_entry.deleted","data":{"time_entry_id":"te_%d"}}`, n)
	})
	serving = startProcess(t, command(t, url, "serve", "--roles", "api", "--no-migrate"))
	read.base = apiOf(serving)
	cursor = read.take(held, cursor)
	newest := map[string]string{}
	read.take(newest, "")
	if len(newest) != entries-(entries+6)/7 || !maps.Equal(held, newest) {
		t.Errorf("%d rows are held, want %d in their newest state", len(held), len(newest))
	}
	read.take(held, cursor)
	if code := serving.stop(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
	_ = projecting.stop()
}
