//go:build outside

package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// page is a runner in a browser: a page that does tasks. It has the service at the address that the page
// itself comes from.
type page struct {
	server *httptest.Server
	tasks  chan map[string]any

	mu      sync.Mutex
	last    int
	under   map[string]*url.URL // the services of the tasks under way
	results map[string]chan<- []byte
}

// openPage opens the page in Chromium. dir has the client and its tests, compiled.
func openPage(t *testing.T, dir string) *page {
	t.Helper()
	p := &page{tasks: make(chan map[string]any), under: map[string]*url.URL{}, results: map[string]chan<- []byte{}}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(os.DirFS(dir)))
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>tasks</title><script type="module" src="/test/browser.js"></script>`)
	})
	mux.HandleFunc("GET /task", func(w http.ResponseWriter, r *http.Request) {
		select {
		case task := <-p.tasks:
			_ = json.NewEncoder(w).Encode(task)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /result/{task}", p.result)
	mux.HandleFunc("/service/{task}/", p.service)
	mux.HandleFunc("/state", state)
	p.server = httptest.NewUnstartedServer(mux)
	p.server.EnableHTTP2 = true // with HTTP/1.1 a browser opens six connections, and asks again by itself where one is cut
	p.server.StartTLS()
	t.Cleanup(p.server.Close)

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.Flag("ignore-certificate-errors", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	if _, err := chromedp.Run(ctx, chromedp.Navigate(p.server.URL+"/page")); err != nil {
		t.Fatalf("the tests need Debian's chromium: %v", err)
	}
	return p
}

// run has the page do a task.
func (p *page) run(ctx context.Context, in input) (*result, error) {
	to, err := url.Parse(in.URL)
	if err != nil {
		return nil, err
	}
	done := make(chan []byte, 1)
	p.mu.Lock()
	p.last++
	task := strconv.Itoa(p.last)
	p.under[task], p.results[task] = to, done
	p.mu.Unlock()
	select {
	case p.tasks <- map[string]any{"url": p.server.URL + "/service/" + task, "keys": in.Keys, "scenario": in.Scenario, "result": "/result/" + task}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case text := <-done:
		got, err := read(text)
		if err == nil && got.Error != nil && got.Error.Kind == "api" && got.Error.Status == 0 {
			got.Error.Status = http.StatusFound // which a browser does not show
		}
		return got, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *page) result(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[r.PathValue("task")] <- text
	w.WriteHeader(http.StatusNoContent)
}

// service passes a request on, and cuts the connection where it is cut behind it.
func (p *page) service(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	to := p.under[r.PathValue("task")]
	p.mu.Unlock()
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(out *httputil.ProxyRequest) { out.SetURL(to) },
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
		Transport:     &http.Transport{DisableKeepAlives: true},
	}
	http.StripPrefix("/service/"+r.PathValue("task"), proxy).ServeHTTP(w, r)
}

// state keeps the places of followers in files.
func state(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if r.Method == http.MethodPut {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(name, text, 0o600)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}
