package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// fewDescriptors lets a command run with a low limit of open files.
func fewDescriptors(t *testing.T, c *exec.Cmd, limit int) *exec.Cmd {
	t.Helper()
	limited := exec.Command("/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), c.Path}, c.Args[1:]...)...)
	limited.Env = c.Env
	return limited
}

// dialFrom connects from an address of this machine.
func dialFrom(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	return d.DialContext
}

// askFrom requests an address over a connection of its own, and returns the status and
// the body.
func askFrom(t *testing.T, from, url, key string) (int, string) {
	t.Helper()
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: dialFrom(from)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 10 * time.Second,
	}
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Errorf("%s from %s: %v", url, from, err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s from %s: %v", url, from, err)
	}
	return resp.StatusCode, string(body)
}

// TestManyIdleConnections: with few descriptors, an address that opens more connections
// than there are descriptors to every listener, and keeps them, does not keep anyone from
// being answered, and most descriptors stay for PostgreSQL and webhooks.
func TestManyIdleConnections(t *testing.T) {
	t.Parallel()
	const descriptors, crowd = 256, 300
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme")
	serving := startProcess(t, fewDescriptors(t, command(t, url, "serve"), descriptors))
	listeners := map[string]string{}
	for _, name := range []string{"api", "console", "admin"} {
		listeners[name] = strings.TrimSpace(serving.await("for=" + name + " url="))
	}
	key := newReader(t, url, listeners["api"], "acme", "invoices:read").key
	answers(t, listeners["admin"]+"/readyz", http.StatusOK)
	for name, listener := range listeners {
		address := strings.TrimPrefix(listener, "http://")
		for i := range crowd {
			conn, err := dialFrom("127.0.0.1")(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("connection %d to the %s: %v", i, name, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if i%2 == 0 { // the others send nothing
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			}
		}
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		for range 20 {
			if status, body := askFrom(t, from, listeners["api"]+"/v1/invoices", key); status != http.StatusOK {
				t.Fatalf("the API answers %s with %d: %s\n%s", from, status, body, serving.log)
			}
			if status, body := askFrom(t, from, listeners["console"]+"/", ""); status >= http.StatusInternalServerError || status == 0 {
				t.Fatalf("the console answers %s with %d: %s", from, status, body)
			}
			if status, body := askFrom(t, from, listeners["admin"]+"/readyz", ""); status != http.StatusOK {
				t.Fatalf("readiness for %s is %d: %s", from, status, body)
			}
		}
	}
	_, metrics := askFrom(t, "127.0.0.2", listeners["admin"]+"/metrics", "")
	open := 0
	for _, m := range regexp.MustCompile(`ledgerfeed_connections\{listener="\w+"\} (\d+)`).FindAllStringSubmatch(metrics, -1) {
		open += testkit.Must(strconv.Atoi(m[1]))(t)
	}
	if open == 0 || open > descriptors/2 {
		t.Errorf("the listeners have %d connections", open)
	}
	if code := serving.stop(); code != 0 {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}
