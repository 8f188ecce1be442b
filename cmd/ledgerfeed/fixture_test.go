package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// reader reads the API of a serving process with one key.
type reader struct {
	t         *testing.T
	base, key string
}

const endpointScopes = "invoices:read,time_entries:read,clients:read,credits:read,contractors:read,payments:read,events:read"

func newReader(t *testing.T, database, base, workspaceID, scopes string) reader {
	t.Helper()
	var made struct{ Key string }
	out := succeed(t, database, "key", "create", "--workspace", workspaceID, "--name", "test", "--scopes", scopes, "--rate-limit", "1000000", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return reader{t: t, base: base, key: made.Key}
}

// get requests a path, which must exist.
func (r reader) get(path string) []byte {
	r.t.Helper()
	status, body := r.ask(path)
	if status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", path, status, body)
	}
	return body
}

func (r reader) ask(path string) (status int, body []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.base+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, body
}

// page is a list's envelope.
type page struct {
	Data       []json.RawMessage `json:"data"`
	HasMore    bool              `json:"has_more"`
	NextCursor string            `json:"next_cursor"`
}

// list follows a list to its end.
func (r reader) list(path string, limit int) (rows []json.RawMessage) {
	r.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	query := fmt.Sprintf("%s%slimit=%d", path, separator, limit)
	next := query
	for {
		var p page
		if err := json.Unmarshal(r.get(next), &p); err != nil {
			r.t.Fatal(err)
		}
		if p.Data == nil || p.NextCursor == "" || p.HasMore && len(p.Data) != limit {
			r.t.Fatalf("%s: %d rows, has_more %v, next_cursor %q", next, len(p.Data), p.HasMore, p.NextCursor)
		}
		rows = append(rows, p.Data...)
		if !p.HasMore {
			return rows
		}
		next = query + "&cursor=" + url.QueryEscape(p.NextCursor)
	}
}

// credit follows a client's credit to the end of its history.
func (r reader) credit(clientID string) json.RawMessage {
	r.t.Helper()
	path := "/v1/clients/" + clientID + "/credit?limit=3"
	var whole map[string]json.RawMessage
	var history []json.RawMessage
	for next := path; ; {
		var p struct {
			History    []json.RawMessage `json:"history"`
			HasMore    bool              `json:"has_more"`
			NextCursor string            `json:"next_cursor"`
		}
		body := r.get(next)
		if err := json.Unmarshal(body, &p); err != nil {
			r.t.Fatal(err)
		}
		whole = nil
		if err := json.Unmarshal(body, &whole); err != nil {
			r.t.Fatal(err)
		}
		history = append(history, p.History...)
		if !p.HasMore {
			break
		}
		next = path + "&cursor=" + url.QueryEscape(p.NextCursor)
	}
	delete(whole, "has_more")
	delete(whole, "next_cursor")
	whole["history"] = array(history)
	text, err := json.Marshal(whole)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

func array(list []json.RawMessage) json.RawMessage {
	return append(append(json.RawMessage{'['}, bytes.Join(asBytes(list), []byte{','})...), ']')
}

func asBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func (r reader) sameCredit(what string, want json.RawMessage) {
	r.t.Helper()
	var clients map[string]json.RawMessage
	if err := json.Unmarshal(want, &clients); err != nil {
		r.t.Fatal(err)
	}
	for id, credit := range clients {
		same(r.t, what+" of "+id, sorted(r.t, r.credit(id)), sorted(r.t, credit))
	}
}

// singles checks that a single resource is the same bytes as its row.
func (r reader) singles(name string, want json.RawMessage) {
	r.t.Helper()
	var rows []json.RawMessage
	if err := json.Unmarshal(want, &rows); err != nil {
		r.t.Fatal(err)
	}
	for _, row := range rows[:min(5, len(rows))] {
		var id struct{ ID string }
		if err := json.Unmarshal(row, &id); err != nil {
			r.t.Fatal(err)
		}
		same(r.t, name+" "+id.ID, r.get("/v1/"+name+"/"+id.ID), row)
	}
}

// sorted is a JSON object with its fields in order of their names.
func sorted(t *testing.T, text json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, what string, got, want json.RawMessage) {
	t.Helper()
	var g, w bytes.Buffer
	if err := json.Compact(&g, got); err != nil {
		t.Fatalf("%s: %v: %s", what, err, got)
	}
	if err := json.Compact(&w, want); err != nil {
		t.Fatal(err)
	}
	a, b := g.Bytes(), w.Bytes()
	if bytes.Equal(a, b) {
		return
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-150)
	t.Errorf("%s differs at byte %d:\n got …%s\nwant …%s", what, at, a[from:min(len(a), at+150)], b[from:min(len(b), at+150)])
}
