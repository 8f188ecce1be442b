// Package followertest serves a feed and its tree as the API does, for tests of programs that read
// them. A test can make it lie.
package followertest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// Workspace is the service's workspace, and Key its API key.
const (
	Workspace = "acme"
	Key       = "test_abcdefgh0123456789abcdefghijklmnopqrstuvwxyz"
)

// Answer is an answer that the service is about to send. A test may change it.
type Answer struct {
	Path   string
	Status int
	Header http.Header
	Body   string
}

// Service is a service with one workspace. It is safe for concurrent use.
type Service struct {
	URL    string
	Origin string

	t    testing.TB
	keys *signingkey.Keys

	mu      sync.Mutex
	feed    *Feed
	shown   int // how many events pages show
	signed  int // how many events the checkpoint covers
	kept    int // index of the first event that is not too old
	from    int // pages leave out the events before this index, though they are kept
	tamper  func(*Answer)
	hurries bool
	asked   map[string]int
	changed chan struct{} // closed when there is something new
}

// New starts a service without events.
func New(t testing.TB) *Service {
	t.Helper()
	s := &Service{t: t, feed: NewFeed(nil), asked: map[string]int{}, changed: make(chan struct{})}
	text, err := signingkey.New(rand.Reader)
	if err == nil {
		s.keys, err = signingkey.Parse(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	s.Origin = strings.TrimPrefix(server.URL, "http://") + "/" + Workspace + "/events"
	return s
}

// Keys returns the verifier keys of the tree, as in a file.
func (s *Service) Keys() string { return s.KeysFor(s.Origin) }

// KeysFor returns the verifier keys under another name.
func (s *Service) KeysFor(name string) string {
	list, err := s.keys.Verifiers(name)
	if err != nil {
		s.t.Error(err)
	}
	return strings.Join(list, "\n")
}

// Sign signs a note with the service's key.
func (s *Service) Sign(origin, text string) string {
	note, err := s.keys.Sign(origin, text)
	if err != nil {
		s.t.Error(err)
	}
	return string(note)
}

// Show replaces the feed. Pages show its first shown events, and the newest checkpoint covers its
// first signed events.
func (s *Service) Show(feed *Feed, shown, signed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed, s.shown, s.signed = feed, shown, signed
	close(s.changed)
	s.changed = make(chan struct{})
}

// Keep makes the events before an index too old to be shown.
func (s *Service) Keep(from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = from
}

// ShowFrom makes pages leave out the events before an index, although they are kept.
func (s *Service) ShowFrom(from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = from
}

// Tamper makes a function change every answer; nil: none does.
func (s *Service) Tamper(change func(*Answer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tamper = change
}

// HoldNothing makes the service answer at once even if it is asked to wait, which the API allows.
func (s *Service) HoldNothing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurries = true
}

// Asked counts the requests whose path begins with prefix.
func (s *Service) Asked(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, count := range s.asked {
		if strings.HasPrefix(path, prefix) {
			n += count
		}
	}
	return n
}

// RoundTrip answers a request without a network (http.RoundTripper).
func (s *Service) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// ServeHTTP answers as the API does.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, changed := s.answer(r)
	if wait, ok := strings.CutPrefix(r.Header.Get("Prefer"), "wait="); ok && a.Header.Get("Nothing-New") != "" {
		seconds, err := strconv.Atoi(wait)
		if err != nil {
			s.t.Errorf("Prefer: wait=%s", wait)
		}
		s.mu.Lock()
		if s.hurries {
			seconds = 0
		}
		s.mu.Unlock()
		late := time.NewTimer(time.Duration(seconds) * time.Second)
		defer late.Stop()
		select {
		case <-changed:
			a, _ = s.answer(r)
		case <-late.C:
		case <-r.Context().Done():
			return
		}
	}
	a.Header.Del("Nothing-New")
	s.mu.Lock()
	s.asked[r.URL.Path]++
	if s.tamper != nil {
		s.tamper(a)
	}
	s.mu.Unlock()
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	if _, err := w.Write([]byte(a.Body)); err != nil && r.Context().Err() == nil {
		s.t.Logf("write an answer: %v", err)
	}
}

// answer returns the answer to a request, and a channel that is closed when there is something
// newer.
func (s *Service) answer(r *http.Request) (*Answer, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &Answer{Path: r.URL.Path, Status: http.StatusOK, Header: http.Header{}}
	switch path := r.URL.Path; {
	case path == "/docs/keys.txt":
		a.Body = s.Keys() + "\n"
	case r.Header.Get("Authorization") != "Bearer "+Key:
		a.problem(http.StatusUnauthorized, "The key is not valid.", "")
	case path == "/v1/me":
		a.Body = `{"company":{"id":"` + Workspace + `","name":"Acme"},"scopes":["events:read"]}`
	case path == "/v1/events":
		s.page(a, r)
	case path == "/v1/events/checkpoint":
		a.Body = s.Sign(s.Origin, s.feed.Checkpoint(s.Origin, s.signed))
		tag := fmt.Sprintf(`"%d-%s"`, s.signed, s.feed.Root(s.signed))
		a.Header.Set("Etag", tag)
		if r.Header.Get("If-None-Match") == tag {
			a.Status, a.Body = http.StatusNotModified, ""
			a.Header.Set("Nothing-New", "1")
		}
	case strings.HasPrefix(path, "/v1/events/tile/"):
		var found bool
		if a.Body, found = s.feed.Tile(strings.TrimPrefix(path, "/v1/events/"), s.signed); !found || s.tooOld(a.Body, path) {
			a.problem(http.StatusNotFound, "There is no such tile.", "")
		}
	default:
		a.problem(http.StatusNotFound, "There is nothing at this path.", "")
	}
	return a, s.changed
}

// tooOld reports whether a bundle begins with an event that is no longer kept.
func (s *Service) tooOld(bundle, path string) bool {
	return strings.Contains(path, "/entries/") && s.kept > 0 && (s.kept >= len(s.feed.events) || createdAt(bundle[2:]) < createdAt(s.feed.events[s.kept]))
}

// createdAt returns the publish time of an event.
func createdAt(event string) string {
	_, at, _ := strings.Cut(event, `"created_at":"`)
	at, _, _ = strings.Cut(at, `"`)
	return at
}

func (a *Answer) problem(status int, detail, field string) {
	a.Status = status
	problem := map[string]any{"status": status, "detail": detail, "request_id": "req_1"}
	if field != "" {
		problem["errors"] = []map[string]string{{"field": field, "message": detail}}
	}
	text, err := json.Marshal(problem)
	if err != nil {
		panic(err)
	}
	a.Body = string(text)
}

// page answers with a page. A cursor is the index of the next event.
func (s *Service) page(a *Answer, r *http.Request) {
	from := s.kept
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from > s.shown {
			a.problem(http.StatusBadRequest, "is of a log that has gone back.", "cursor")
			return
		}
	} else if since := r.URL.Query().Get("created_since"); since != "" {
		for from < s.shown && createdAt(s.feed.events[from]) < since { // all in one form
			from++
		}
	}
	from = min(max(from, s.from), s.shown)
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		s.t.Errorf("limit: %v", err)
	}
	to := min(from+limit, s.shown)
	a.Body = Page(s.feed.events[from:to], to < s.shown, strconv.Itoa(to))
	if to > from {
		a.Header.Set("Event-Index", strconv.Itoa(from))
	} else {
		a.Header.Set("Nothing-New", "1")
	}
}

// Page writes a page of the feed.
func Page(events []string, more bool, next string) string {
	return `{"data":[` + strings.Join(events, ",") + `],"has_more":` + strconv.FormatBool(more) + `,"next_cursor":"` + next + `"}`
}

// Events reads the events of a page's text.
func Events(page string) (events []string, more bool, next string, err error) {
	var shown struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    bool              `json:"has_more"`
		NextCursor string            `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(page), &shown); err != nil {
		return nil, false, "", fmt.Errorf("a page: %w", err)
	}
	for _, event := range shown.Data {
		events = append(events, string(event))
	}
	return events, shown.HasMore, shown.NextCursor, nil
}
