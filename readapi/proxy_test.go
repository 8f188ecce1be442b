//go:build outside

// These tests have answers judged by prism, a validating proxy that we did not
// write; it needs node and what .ci/check-contract installs.

package readapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

const (
	prism         = "../.ci/contract/node_modules/.bin/prism" // .ci/check-contract installs it
	prismPatience = 60 * time.Second                          // until it listens
	// nodeOptions let prism pass on headers as large as the tests send, and end
	// with the test process, however that ends.
	nodeOptions = "NODE_OPTIONS=--max-http-header-size=1048576 --import=data:text/javascript,process.stdin.on('end',()=>process.exit()).resume()"
	// exchangeHeader names an exchange to the server behind prism.
	exchangeHeader = "X-Exchange"
)

// proxy is a prism between the tests and the servers of their stands. Behind it
// is one server for all: it finds out by exchangeHeader which exchange a request
// belongs to.
type proxy struct {
	host    string // where prism listens
	client  *http.Client
	serial  atomic.Int64
	carried atomic.Int64 // answers that prism has judged

	mu      sync.Mutex
	waiting map[string]*exchange // guarded by mu
}

// exchange is a request on its way through prism.
type exchange struct {
	method, path string
	answer       func() (reply, error) // asks who is behind prism
	once         sync.Once
	got          reply
	err          error
}

// violation is what prism finds, as it writes it into a header.
type violation struct {
	Location []string `json:"location"`
	Severity string   `json:"severity"`
	Message  string   `json:"message"`
}

// startProxy runs prism until the test ends.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, waiting: map[string]*exchange{}}
	t.Cleanup(p.client.CloseIdleConnections)
	behind := httptest.NewUnstartedServer(http.HandlerFunc(p.behind))
	behind.Config.MaxHeaderBytes = 4 << 20 // more than any stand accepts: the stand refuses them
	behind.Start()
	t.Cleanup(behind.Close)
	document := filepath.Join(t.TempDir(), "openapi.json")
	description := testkit.Must(openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: docsURL}))(t)
	if err := os.WriteFile(document, description, 0o600); err != nil {
		t.Fatal(err)
	}
	p.host = freeHost(t)
	_, port, _ := net.SplitHostPort(p.host)
	// Nothing is said but of its own failures: what it finds stands in headers.
	run := exec.CommandContext(t.Context(), prism, "proxy", document, behind.URL,
		"--port", port, "--validate-request=false", "--cors=false", "-v", "fatal")
	run.Env = append(os.Environ(), nodeOptions)
	p.run(t, run)
	return p
}

// freeHost is a loopback address that nobody listens on.
func freeHost(t *testing.T) string {
	t.Helper()
	l := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// run starts prism and waits until it listens.
func (p *proxy) run(t *testing.T, command *exec.Cmd) {
	t.Helper()
	said := &testkit.Buffer{}
	command.Stdout, command.Stderr = said, said
	stdin := testkit.Must(command.StdinPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatalf("prism does not start (.ci/check-contract installs it): %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = stdin.Close() // the test's context has killed it already, or it ends now
		<-ended
	})
	deadline := time.After(prismPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.host); err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			t.Fatalf("prism ended: %v\n%s", err, said)
		case <-deadline:
			t.Fatalf("prism does not listen within %v\n%s", prismPatience, said)
		}
	}
}

// behind is the server behind prism. It asks with the test's own bytes, because
// prism writes queries and repeated headers anew.
func (p *proxy) behind(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	x := p.waiting[r.Header.Get(exchangeHeader)]
	p.mu.Unlock()
	if x == nil {
		http.Error(w, "no such exchange", http.StatusTeapot)
		return
	}
	x.once.Do(func() {
		if x.err = x.passedOn(r); x.err == nil {
			x.got, x.err = x.answer()
		}
	})
	if x.err != nil {
		panic(http.ErrAbortHandler)
	}
	if err := x.hand(w); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// passedOn fails unless prism asks for what the test asked for.
func (x *exchange) passedOn(r *http.Request) error {
	escaped, _, _ := strings.Cut(x.path, "?")
	path, err := url.PathUnescape(escaped)
	if err != nil || r.Method != x.method || r.URL.Path != path {
		return fmt.Errorf("prism made %s %s of it", r.Method, r.URL.Path)
	}
	return nil
}

// hand gives prism the answer. Its body is unpacked: prism knows no zstd. An
// answer to HEAD is not called JSON, because prism would read its body.
func (x *exchange) hand(w http.ResponseWriter) error {
	r := x.got
	u, err := newUnpacker()
	if err != nil {
		return err
	}
	defer u.close()
	body := r.body
	if len(body) > 0 {
		if body, err = u.unpack(r.header.Get("Content-Encoding"), body); err != nil {
			return err
		}
	}
	for name, values := range r.header {
		w.Header()[name] = values
	}
	for _, name := range []string{"Content-Length", "Content-Encoding", "Transfer-Encoding"} {
		w.Header().Del(name)
	}
	if x.method == http.MethodHead {
		w.Header().Del("Content-Type")
	}
	w.WriteHeader(r.status)
	if len(body) > 0 {
		_, err = w.Write(body)
	}
	return err
}

// carry sends a request through prism to who answers it, and returns what was
// answered, before prism wrote it anew, with what prism finds in it.
func (p *proxy) carry(ctx context.Context, answer func() (reply, error), method, path, key string, headers ...string) (reply, []violation, error) {
	x := &exchange{method: method, path: path, answer: answer}
	name := strconv.FormatInt(p.serial.Add(1), 10)
	p.mu.Lock()
	p.waiting[name] = x
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, name)
	}()
	r, err := written(ctx, p.host, method, path, key, headers...)
	if err != nil {
		return reply{}, nil, err
	}
	r.Header.Set(exchangeHeader, name)
	response, err := p.client.Do(r)
	if err != nil {
		return reply{}, nil, fmt.Errorf("prism: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, nil, fmt.Errorf("prism: %w", err)
	}
	found, err := p.found(x, reply{response.StatusCode, response.Header, body})
	return x.got, found, err
}

// found is what prism says of an exchange; an error if prism has not judged it.
func (p *proxy) found(x *exchange, through reply) ([]violation, error) {
	x.once.Do(func() { x.err = errors.New("prism did not pass the request on") })
	if x.err != nil {
		return nil, x.err
	}
	if through.status == http.StatusInternalServerError && strings.Contains(string(through.body), `"title":"invalid json response body`) {
		p.carried.Add(1)
		return []violation{{Message: string(through.body)}}, nil
	}
	if through.status != x.got.status {
		return nil, fmt.Errorf("prism made %d of %d: %.500s", through.status, x.got.status, through.body)
	}
	found, err := violations(through.header.Get("Sl-Violations"))
	if err != nil {
		return nil, err
	}
	p.carried.Add(1)
	if x.method == http.MethodHead {
		found = slices.DeleteFunc(found, violation.missesBody)
	}
	return found, nil
}

// missesBody tells whether prism only finds that there is no body, which it does of
// HEAD where the description shares an error with GET.
func (v violation) missesBody() bool {
	return slices.Equal(v.Location, []string{"response", "body"}) ||
		slices.Equal(v.Location, []string{"response"}) && strings.HasPrefix(v.Message, `The received media type "" does not match`)
}

// violations reads what prism has found in an answer, whatever the severity: an
// unknown status is a warning only, unless it is a 2xx.
func violations(header string) ([]violation, error) {
	if header == "" {
		return nil, nil
	}
	if !json.Valid([]byte(header)) { // it cuts off long ones
		return []violation{{Message: header}}, nil
	}
	var all []violation
	if err := json.Unmarshal([]byte(header), &all); err != nil {
		return nil, fmt.Errorf("prism: %w", err)
	}
	var found []violation
	for _, v := range all {
		switch {
		case len(v.Location) > 0 && v.Location[0] == "response":
			found = append(found, v)
		case v.Message == "Selected route not found":
			return nil, errors.New("prism finds no such operation in the description")
		}
	}
	return found, nil
}

// carries says whether prism can judge a request's answer: there has to be a
// description of it.
func carries(c *contract, method, path string) bool {
	u, err := url.Parse("https://api.example.com" + path)
	if err != nil {
		return false
	}
	route, _ := c.routeOf(method, u)
	return route != nil
}
