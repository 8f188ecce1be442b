package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// mostAhead is how many numbers after a gap are remembered. With more the gap is closed
// at once.
const mostAhead = 10_000

// missing follows the numbers of one webhook's messages, and fetches the events of those
// that do not come. A real receiver keeps expected and since in its database, so that a
// gap that opens while it is not running is seen, too.
type missing struct {
	api, key string
	wait     time.Duration // how long a message may be late
	handle   func(event)
	client   *http.Client

	mu        sync.Mutex
	expected  int64            // the lowest number that has not come; 0: none has
	since     string           // created_at of the event before it
	ahead     map[int64]string // created_at of the events of higher numbers
	openSince time.Time        // when the gap was noticed
}

// arrived notes a message. One without a number, such as a test ping, is no part of it.
func (m *missing) arrived(text, createdAt string) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expected == 0 {
		m.expected = number
	}
	if number >= m.expected {
		m.ahead[number] = createdAt
		m.advance()
	}
}

// advance moves expected over what has come.
func (m *missing) advance() {
	moved := false
	for at, came := m.ahead[m.expected]; came; at, came = m.ahead[m.expected] {
		delete(m.ahead, m.expected)
		m.since, moved = at, true
		m.expected++
	}
	if len(m.ahead) == 0 {
		m.openSince = time.Time{}
	} else if moved || m.openSince.IsZero() {
		m.openSince = time.Now()
	}
}

// watch fetches what a gap hides once it has stayed for the wait. It never returns.
func (m *missing) watch() {
	for range time.Tick(min(m.wait, time.Second)) {
		if err := m.closeGap(); err != nil {
			log.Println("cannot fetch what is missing:", err) // tried again
		}
	}
}

func (m *missing) closeGap() error {
	m.mu.Lock()
	if m.openSince.IsZero() || time.Since(m.openSince) < m.wait && len(m.ahead) < mostAhead {
		m.mu.Unlock()
		return nil
	}
	highest, since, until := int64(0), m.since, ""
	for number, at := range m.ahead {
		highest, until = max(highest, number), max(until, at)
		if since == "" || at < since { // an event that was sent as missed is older than the one before it
			since = at
		}
	}
	m.mu.Unlock()
	if err := m.fetch(since, until); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for number := range m.ahead {
		if number <= highest {
			delete(m.ahead, number)
		}
	}
	m.expected, m.since = highest+1, until
	m.advance()
	return nil
}

// fetch handles the events published from one time up to another, a page at a time.
// Those that were handled before are left out there.
func (m *missing) fetch(since, until string) error {
	query := url.Values{"created_since": {since}, "limit": {"100"}}
	for {
		p, err := m.page(query)
		if err != nil {
			return err
		}
		for _, e := range p.Data {
			if e.CreatedAt > until {
				return nil
			}
			m.handle(e)
		}
		if !p.HasMore {
			return nil
		}
		query.Set("cursor", p.NextCursor) // belongs to the other parameters
	}
}

type page struct {
	Data       []event `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor string  `json:"next_cursor"`
}

func (m *missing) page(query url.Values) (p page, err error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, m.api+"/v1/events?"+query.Encode(), http.NoBody)
	if err != nil {
		return p, fmt.Errorf("ask for events: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+m.key)
	answer, err := m.client.Do(r)
	if err != nil {
		return p, fmt.Errorf("ask for events: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return p, fmt.Errorf("/v1/events answered %s", answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
		return p, fmt.Errorf("read a page of events: %w", err)
	}
	return p, nil
}
