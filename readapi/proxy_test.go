//go:build outside

// These tests have answers judged by prism, a validating proxy that is not ours. It needs
// node and what .ci/check-contract installs.

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

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

const (
	prism = "../.ci/contract/node_modules/.bin/prism" // .ci/check-contract installs it
	// nodeOptions make prism pass on headers as large as the tests send, and end
	// with the test process, however that ends.
	nodeOptions = "NODE_OPTIONS=--max-http-header-size=1048576 --import=data:text/javascript,process.stdin.on('end',()=>process.exit()).resume()"
	// exchangeHeader names an exchange to the server behind prism.
	exchangeHeader = "X-Exchange"
)

// proxy is a prism between the tests and the servers of their stands. Behind it is one
// server for all of them, which finds the exchange of a request by exchangeHeader.
type proxy struct {
	host    string // where prism listens
	client  *http.Client
	serial  atomic.Int64
	carried atomic.Int64 // answers that prism judged

	mu      sync.Mutex
	waiting map[string]*exchange // guarded by mu
}

// exchange is a request on its way through prism.
type exchange struct {
	method, path string
	answer       func() (reply, error) // gets the answer from the server behind prism
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
	description := testkit.Must(strictDescription())(t)
	if err := os.WriteFile(document, description, 0o600); err != nil {
		t.Fatal(err)
	}
	const port = "4010"
	host := testkit.OwnHost(t)
	p.host = net.JoinHostPort(host, port)
	// It logs only its own failures; what it finds is in headers.
	run := exec.CommandContext(t.Context(), prism, "proxy", document, behind.URL,
		"--host", host, "--port", port, "--validate-request=false", "--cors=false", "-v", "fatal")
	run.Env = append(os.Environ(), nodeOptions)
	p.run(t, run)
	return p
}

// run starts prism and waits until it listens.
func (p *proxy) run(t *testing.T, command *exec.Cmd) {
	t.Helper()
	output := &testkit.Buffer{}
	command.Stdout, command.Stderr = output, output
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
	testkit.Eventually(t, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("prism ended: %v\n%s", err, output)
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.host)
		if err != nil {
			return fmt.Errorf("prism does not listen: %w\n%s", err, output)
		}
		return conn.Close()
	})
}

// behind is the server behind prism. It makes the request with the test's own bytes,
// because prism rewrites queries and repeated headers.
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

// passedOn fails unless prism passed the test's request on.
func (x *exchange) passedOn(r *http.Request) error {
	escaped, _, _ := strings.Cut(x.path, "?")
	path, err := url.PathUnescape(escaped)
	if err != nil || r.Method != x.method || r.URL.Path != path {
		return fmt.Errorf("prism made %s %s of it", r.Method, r.URL.Path)
	}
	return nil
}

// hand sends prism the answer. The body is decompressed, because prism does not know
// zstd. The answer to HEAD has no Content-Type, because prism would read its body.
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

// carry sends a request through prism to answer, and returns the answer as it was before
// prism rewrote it, with what prism finds in it.
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

// missesBody reports whether prism finds only that there is no body, as it does for HEAD
// where the description shares an error with GET.
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

// carries reports whether prism can judge the answer to a request: it must be described,
// and prism finds no operation where a parameter in the path has a slash, as tiles have.
func carries(c *contract, method, path string) bool {
	u, err := url.Parse("https://api.example.com" + path)
	if err != nil {
		return false
	}
	route, parameters := c.routeOf(method, u)
	return route != nil && !strings.Contains(parameters["tile"], "/")
}
