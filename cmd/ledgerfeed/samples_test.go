//go:build outside

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// sample is a program of the reference.
type sample struct{ operation, language, code string }

// samplesOf are the programs on a page of the reference.
func samplesOf(t *testing.T, page string) (list []sample) {
	t.Helper()
	for n := range testkit.Must(html.Parse(strings.NewReader(page)))(t).Descendants() {
		s := sample{}
		for _, a := range n.Attr {
			switch a.Key {
			case "data-sample":
				s.operation = a.Val
			case "data-language":
				s.language = a.Val
			}
		}
		if s.operation == "" {
			continue
		}
		for d := range n.Descendants() {
			if d.Type == html.TextNode {
				s.code += d.Data
			}
		}
		list = append(list, s)
	}
	return list
}

// publishes appends an event each half second until the test and its parts have ended: what
// waits for one would otherwise depend on what the demo appends meanwhile.
func publishes(t *testing.T, url, workspaceID string) {
	t.Helper()
	log, closeLog, err := openLog(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	draft := testkit.Must(domain.NewDraft(workspaceID, "invoice.reversed", []byte(`{"invoice_id":"in_1"}`)))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for flow.Sleep(ctx, 500*time.Millisecond) {
			if _, err := log.Append(ctx, draft); err != nil && ctx.Err() == nil {
				t.Errorf("append: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		closeLog()
	})
}

// keptBundle is the path of the first bundle of events that are all kept in the feed. The tree
// comes after what the demo has just appended: as long as it is far behind, the page names no
// index.
func (r reader) keptBundle() string {
	r.t.Helper()
	const width = 256
	var number, n int // of the bundle, and the events of it that the tree has
	testkit.Eventually(r.t, func() error {
		first, err := r.firstIndex()
		if err != nil {
			return err
		}
		number = (first + width - 1) / width
		var size int
		if _, err := fmt.Sscanf(strings.Split(string(r.get("/v1/events/checkpoint")), "\n")[1], "%d", &size); err != nil {
			return err
		}
		if n = size - number*width; n < 1 {
			return fmt.Errorf("no bundle of the tree of size %d begins with events that are kept, from %d on", size, first)
		}
		return nil
	})
	if n < width {
		return fmt.Sprintf("%03d.p/%d", number, n)
	}
	return fmt.Sprintf("%03d", number)
}

// firstIndex is where the feed begins in the tree.
func (r reader) firstIndex() (int, error) {
	r.t.Helper()
	req := testkit.Must(http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.base+"/v1/events?limit=1", http.NoBody))(r.t)
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp := testkit.Must(http.DefaultTransport.RoundTrip(req))(r.t)
	_ = resp.Body.Close()
	first, err := strconv.Atoi(resp.Header.Get("Event-Index"))
	if err != nil {
		return 0, fmt.Errorf("the feed does not say where it begins in the tree: %w", err)
	}
	return first, nil
}

// troubles is how many requests fail in troubled.
const troubles = 2

// troubled is the address of a proxy for one program: it answers the first request 503, breaks the
// connection of the second one off in the middle of the answer, and passes the others on.
func troubled(t *testing.T, base string, asked *atomic.Int64) string {
	t.Helper()
	passOn := httputil.NewSingleHostReverseProxy(testkit.Must(neturl.Parse(base))(t))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":503}`))
		case troubles:
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"data":[`))
			panic(http.ErrAbortHandler)
		default:
			passOn.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestSamplesOfTheReference runs each program of the reference as it is against the demo. Its key may
// make more requests a minute. Programs that follow something meet a 503 and a broken connection.
func TestSamplesOfTheReference(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	program := command(t, url, "demo")
	key, _ := newSigningKey(t)
	program.Env = append(program.Env, "LEDGERFEED_SIGNING_KEY="+key)
	demo := startProcess(t, program)
	demo.await("Ctrl-C stops everything")
	said := demo.log.String()
	hint := regexp.MustCompile(`curl -s '(http\S+)/v1/invoices`).FindStringSubmatch(said)
	workspace := regexp.MustCompile(`\(workspace (\S+)\)`).FindStringSubmatch(said)
	if hint == nil || workspace == nil {
		t.Fatalf("the demo says too little:\n%s", said)
	}
	base := hint[1]
	read := newReader(t, url, base, workspace[1], endpointScopes+",pay:read,margin:read")
	publishes(t, url, workspace[1])
	_, page := bodyOf(t, base+"/docs")
	described := regexp.MustCompile(`The base address is <code>([^<]+)</code>`).FindStringSubmatch(page)
	if described == nil {
		t.Fatal("the reference names no base address")
	}
	bundle := read.keptBundle()
	var samples []sample
	_, contents := bodyOf(t, base+"/llms.txt")
	for _, linked := range regexp.MustCompile(`\(`+described[1]+`(/docs/\S+)\.md\)`).FindAllStringSubmatch(contents, -1) {
		_, page := bodyOf(t, base+linked[1])
		samples = append(samples, samplesOf(t, page)...)
	}
	if len(samples) < 100 {
		t.Fatalf("%d samples found in the reference", len(samples))
	}
	for _, s := range samples {
		from, asked := base, &atomic.Int64{}
		if s.operation == "follow" || s.operation == "wait" {
			from = troubled(t, base, asked)
		}
		code := strings.ReplaceAll(s.code, described[1], from)
		code = strings.Replace(code, "/tile/entries/000.p/1", "/tile/entries/"+bundle, 1)
		t.Run(s.operation+" in "+s.language, func(t *testing.T) {
			t.Parallel()
			file, run := "main.go", []string{"go", "run"}
			switch s.language {
			case "curl":
				file, run = "main.sh", []string{"bash"}
			case "TypeScript":
				file, run = "main.mjs", []string{"node"} // it has no types that Node.js would not know
			case "Python":
				file, run = "main.py", []string{"python3"}
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, file), []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), run[0], append(run[1:], file)...)
			c.Dir = dir
			c.Env = append(os.Environ(), "API_KEY="+read.key, "SECONDS_TO_RUN=20", "POSITION=100")
			out, err := c.CombinedOutput()
			if err != nil || len(out) == 0 {
				t.Fatalf("%v: %s\n%s", err, out, code)
			}
			if from != base && asked.Load() <= troubles {
				t.Errorf("it asked %d times, and did not go on after an error that passes: %s", asked.Load(), out)
			}
			if s.operation == "wait" && !strings.Contains(string(out), "invoice.reversed") {
				t.Errorf("no event: %s", out)
			}
			if s.operation == "position" && !regexp.MustCompile(`(?i)position:? \d+`).Match(out) {
				t.Errorf("no position: %s", out)
			}
			if s.operation == "follow" || s.operation == "whole" {
				if cursor, err := os.ReadFile(filepath.Join(dir, "cursor.txt")); err != nil || len(cursor) == 0 {
					t.Errorf("no cursor is kept: %v", err)
				}
			}
		})
	}
}
