package readapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// TestLargeHeaders: headers that are too large get a problem document; the server itself
// refuses only much larger ones.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for _, target := range []string{"/v1/me", "/v1/me?x=" + strings.Repeat("x", 20_000), "/" + strings.Repeat("x", 20_000)} {
		var headers []string
		if target == "/v1/me" {
			headers = []string{"X-Large", strings.Repeat("x", 20_000)}
		}
		r := s.get(target, key, headers...)
		checkHeaders(t, "large headers", r)
		if r.status != 431 || !strings.Contains(string(r.body), `"status":431`) {
			t.Errorf("%.30s: %d %s", target, r.status, r.body)
		}
	}
	if r := s.get("/v1/me", key, "X-Large", strings.Repeat("x", 10_000)); r.status != 200 {
		t.Errorf("10,000 bytes: %d", r.status)
	}
}

// TestWhatTheServerRefusesItself: requests that no handler sees are answered like all
// others.
func TestWhatTheServerRefusesItself(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	key := s.key("acme", allPermissions()...)
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"OPTIONS *":           {"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + key + "\r\n\r\n", 404},
		"no request at all":   {"hello\r\n\r\n", 400},
		"TLS":                 {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		"no host":             {"GET /v1/me HTTP/1.1\r\n\r\n", 400},
		"two hosts":           {"GET /v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"a malformed header":  {"GET /v1/me HTTP/1.1\r\nHost: a\r\nx y: b\r\n\r\n", 400},
		"an undecodable path": {"GET /v1/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"CONNECT":             {"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\n\r\n", 405},
		"an unknown version":  {"GET /v1/me HTTP/3.9\r\nHost: a\r\n\r\n", 400},
		"an unknown coding":   {"GET /v1/me HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 400},
		"an expectation":      {"GET /v1/me HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 400},
		"headers without end": {"GET /v1/me HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5*answer.MaxHeaderBytes), 431},
		"a line without end":  {"GET /" + strings.Repeat("x", 5*answer.MaxHeaderBytes), 431},
		"a key in a bad path": {"GET /v1/%zz" + key + " HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(s.raw(c.request))), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkHeaders(t, name, reply{response.StatusCode, response.Header, body})
		var p struct {
			Status    int
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(body, &p); err != nil || response.StatusCode != c.want || p.Status != c.want || p.RequestID != response.Header.Get("X-Request-Id") {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
		if bytes.Contains(body, []byte(key)) || strings.Contains(s.output.String(), key) {
			t.Errorf("%s repeats the key", name)
		}
	}
}

// raw sends bytes and returns what comes back until the connection ends.
func (s *stand) raw(request string) string {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if os.IsTimeout(err) {
		s.t.Errorf("the connection is held open after %.60q", request)
	}
	return string(text)
}
