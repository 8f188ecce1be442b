//go:build outside

// These tests need programs that do not come with Go: node with npm, and python3.
// They have a build tag so that the ordinary tests need nothing set up. CI runs both.

package delivery_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// program returns the path of a program that the tests need; a missing one
// fails them.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("this test needs %s: %v", name, err)
	}
	return path
}

// TestStripeLibraryVerifies checks our deliveries with the unchanged library of a
// service that uses the same form of signature header.
func TestStripeLibraryVerifies(t *testing.T) {
	t.Parallel()
	node, npm := program(t, "node"), program(t, "npm")
	dir := npmProgram(t, npm, "stripe")
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 3)
	rc.Wait(t, 3)
	rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	b.append("time_entry.approved", 3)
	got := rc.Wait(t, 6)

	type question struct {
		Header string `json:"header"`
		Body   []byte `json:"body"`
		Secret string `json:"secret"`
		Now    int64  `json:"now"`
	}
	var questions []question
	var want []string
	ask := func(expect, header, body, secret string, now time.Time) {
		questions = append(questions, question{header, []byte(body), secret, now.UnixMilli()})
		want = append(want, expect)
	}
	for i, r := range got {
		header, id := r.Header.Get("Service-Signature"), r.Header.Get("Service-Event-Id")
		ask(id, header, r.Body, w.Secret, r.At)
		if i < 3 {
			ask("refused", header, r.Body, rotated.Secret, r.At)
		} else {
			ask(id, header, r.Body, rotated.Secret, r.At)
		}
		ask("refused", header, r.Body+" ", w.Secret, r.At)
		ask("refused", header, strings.Replace(r.Body, "e", "f", 1), w.Secret, r.At)
		ask("refused", header, r.Body, w.Secret, r.At.Add(302*time.Second))
		ask("refused", strings.Replace(header, "t=1", "t=2", 1), r.Body, w.Secret, r.At)
	}
	answered(t, node, dir, questions, want)
}

// npmProgram copies a program of testdata, and installs what it needs.
func npmProgram(t *testing.T, npm, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range []string{"package.json", "package-lock.json", "verify.mjs"} {
		text := testkit.Must(os.ReadFile(filepath.Join("testdata", name, file)))(t)
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// answered asks verify.mjs in dir and checks its answers.
func answered[Q any](t *testing.T, node, dir string, questions []Q, want []string) {
	t.Helper()
	check := exec.CommandContext(t.Context(), node, "verify.mjs")
	check.Dir = dir
	var input strings.Builder
	for _, q := range questions {
		input.Write(testkit.Must(json.Marshal(q))(t))
		input.WriteByte('\n')
	}
	check.Stdin = strings.NewReader(input.String())
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if answers := strings.Fields(string(out)); !slices.Equal(answers, want) {
		t.Errorf("the library says\n%q, want\n%q", answers, want)
	}
}

// TestStandardWebhooksLibraryVerifies checks deliveries with the standard's own library:
// before, during and after the choice of its headers, and while a secret is rotated.
func TestStandardWebhooksLibraryVerifies(t *testing.T) {
	t.Parallel()
	node := program(t, "node")
	dir := npmProgram(t, program(t, "npm"), "standardwebhooks")
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	if got := rc.Wait(t, 1)[0].Header; got.Get("webhook-id") != "" || got.Get("webhook-signature") != "" {
		t.Errorf("without the choice there is %v", got)
	}
	on := true
	if w := testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{Standard: &on}))(t); !w.Standard {
		t.Error("the choice was not kept")
	}
	b.append("invoice.reversed", 2)
	rc.Wait(t, 3)
	rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	b.append("invoice.reversed", 2)
	got := rc.Wait(t, 5)[1:]
	type question struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Secret  string            `json:"secret"`
	}
	var questions []question
	var want []string
	for i, r := range got {
		headers := map[string]string{}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			headers[name] = r.Header.Get(name)
		}
		if err := attempt.Verify(r.At, r.Header.Get("Service-Signature"), []byte(r.Body), w.Secret); err != nil || headers["webhook-id"] != r.Header.Get("Service-Event-Id") {
			t.Errorf("beside our own headers: %v, %v", err, headers)
		}
		newSecret := headers["webhook-id"]
		if i < 2 {
			newSecret = "refused"
		}
		questions = append(questions, question{headers, r.Body, w.Secret}, question{headers, r.Body, rotated.Secret}, question{headers, r.Body + " ", w.Secret})
		want = append(want, headers["webhook-id"], newSecret, "refused")
	}
	answered(t, node, dir, questions, want)
}

// TestExampleReceivers runs each receiver of docs/receivers, and one of our client, against real deliveries,
// behind a proxy that terminates TLS, as in production.
func TestExampleReceivers(t *testing.T) {
	t.Parallel()
	docs := testkit.Must(filepath.Abs("../docs/receivers"))(t)
	for _, c := range []struct {
		name    string
		command func() []string
	}{
		{"go", func() []string {
			binary := filepath.Join(t.TempDir(), "receiver")
			if out, err := exec.CommandContext(t.Context(), program(t, "go"), "build", "-o", binary, filepath.Join(docs, "go")).CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			return []string{binary}
		}},
		{"node", func() []string { return []string{program(t, "node"), filepath.Join(docs, "node", "receiver.mjs")} }},
		{"python", func() []string { return []string{program(t, "python3"), filepath.Join(docs, "python", "receiver.py")} }},
		{"the client for Python", func() []string {
			return []string{program(t, "python3"), "-B", "../readapi/client/python/tests/receiver.py"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exampleReceiver(t, false, c.command())
		})
		t.Run(c.name+", Standard Webhooks", func(t *testing.T) {
			t.Parallel()
			exampleReceiver(t, true, c.command())
		})
	}
}

// runExample starts a receiver; it returns its address and the lines that it prints.
func runExample(t *testing.T, command []string, env ...string) (address string, printed <-chan string) {
	t.Helper()
	port := ownPort(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), env...), "PORT="+port)
	cmd.Stderr = os.Stderr
	out := testkit.Must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "event ") {
				lines <- s.Text()
			}
		}
	}()
	t.Cleanup(func() { stop(); <-read; _ = cmd.Wait() })
	address = "127.0.0.1:" + port
	testkit.Eventually(t, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return address, lines
}

func exampleReceiver(t *testing.T, standard bool, command []string) {
	b := setup(t, policy.Settings{Schedule: policy.Schedule{50 * time.Millisecond, 50 * time.Millisecond}})
	// The receiver needs the secret, and creating the webhook needs the address. So
	// the proxy, which has the address, starts before the receiver.
	var upstream string
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := &url.URL{Scheme: "http", Host: upstream}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: proxy.URL, Events: []string{"all"}, Standard: standard}))(t)
	env := []string{"WEBHOOK_SECRET=" + w.Secret}
	if standard {
		env = append(env, "WEBHOOK_STANDARD=1")
	}
	var lines <-chan string
	upstream, lines = runExample(t, command, env...)

	const other = "whsec_0123456789012345678901234567890123456789"
	sign := func(at time.Time, body string, secrets ...string) http.Header {
		header := http.Header{}
		if standard {
			attempt.SetStandard(header, at, "evt_x", []byte(body), secrets...)
		} else {
			header.Set("SERVICE-Signature", attempt.Sign(at, []byte(body), secrets...))
		}
		return header
	}
	cut := func(header http.Header) http.Header {
		for _, values := range header {
			values[0] = values[0][:len(values[0])/2]
		}
		return header
	}
	post := func(header http.Header, body string) int {
		t.Helper()
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+upstream, strings.NewReader(body)))(t)
		req.Header = header
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	body := `{"id":"evt_x","type":"test.ping","created_at":"2026-10-02T09:15:00.120Z","data":{"object_type":"webhook","object_id":"wh_1"}}`
	now := time.Now()
	for name, header := range map[string]http.Header{
		"nothing": {}, "nonsense": {"Service-Signature": {"t=x,v1=y"}, "webhook-timestamp": {"x"}, "webhook-signature": {"v1,y"}},
		"no signature":   {"Service-Signature": {fmt.Sprintf("t=%d", now.Unix())}, "webhook-timestamp": {strconv.FormatInt(now.Unix(), 10)}},
		"another secret": sign(now, body, other),
		"another body":   sign(now, body+" ", w.Secret),
		"too old":        sign(now.Add(-302*time.Second), body, w.Secret),
		"too new":        sign(now.Add(310*time.Second), body, w.Secret),
		"half of one":    cut(sign(now, body, w.Secret)),
	} {
		if status := post(header, body); status != 400 {
			t.Errorf("%s: answered %d, want 400", name, status)
		}
	}
	for range 2 { // the second one is a repeat
		if status := post(sign(time.Now(), body, w.Secret, other), body); status != 204 {
			t.Errorf("a right message: answered %d", status)
		}
	}
	b.dispatcher()
	b.append("invoice.reversed", 20)
	want := make([]policy.State, 20)
	for i := range want {
		want[i] = policy.Succeeded
	}
	list := b.states(w.ID, want...)
	testkit.Must(b.store.Resend(t.Context(), list[0].ID))(t)
	b.states(w.ID, want...)
	seen := map[string]int{}
	for range 21 {
		line, ok := nextLine(t, lines)
		if !ok {
			t.Fatalf("only %d events were printed", len(seen))
		}
		seen[strings.Fields(line)[1]]++
	}
	for _, d := range list {
		if seen[d.EventID] != 1 {
			t.Errorf("event %s was printed %d times", d.EventID, seen[d.EventID])
		}
	}
}

// nextLine waits for a line of an example; false if none comes for minutes.
func nextLine(t *testing.T, lines <-chan string) (string, bool) {
	t.Helper()
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	select {
	case line := <-lines:
		return line, true
	case <-limited.Done():
		return "", false
	}
}

// ownPort is a port for a program that has to be told one. The kernel gives ports from 32768 to
// whoever asks for any, also between a look for a free one and the program's own start, so
// this is one below. Until the test ends a UDP socket keeps it from other tests.
func ownPort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(20_000 + rand.IntN(10_000))
		lock, err := net.ListenPacket("udp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = probe.Close()
		t.Cleanup(func() { _ = lock.Close() })
		return port
	}
	t.Fatal("there is no free port")
	return ""
}
