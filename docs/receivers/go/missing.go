package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// mostAhead is how many numbers after a gap are remembered. With more the gap is closed
// at once. A number that is further ahead than this is not believed: it is not signed.
const mostAhead = 10_000

// retention is how long the service keeps events.
const retention = 30 * 24 * time.Hour

// missing follows the numbers of one webhook's messages, and fetches the events of those
// that do not come. A real receiver keeps expected and since in its database, so that a
// gap that opens while it is not running is seen, too.
type missing struct {
	api, key string
	wait     time.Duration // how long a message may be late
	handle   func(event)
	client   *http.Client

	mu        sync.Mutex
	expected  int64            // the lowest number that has not come; 0: the first that comes
	since     string           // created_at of the event before it; empty: not known
	ahead     map[int64]string // created_at of the events of higher numbers
	highest   int64            // the highest number that came, also if ahead was full
	highestAt string           // created_at of its event
	oldest    string           // the least created_at that ahead had no room for; empty: it had
	openSince time.Time        // when the gap was noticed
}

// arrived notes a message. One without a number, such as a test ping, is no part of it.
func (m *missing) arrived(text, createdAt string) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 || m.api == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expected == 0 {
		m.expected = number
	}
	if known := max(m.highest, m.expected-1); number > known+mostAhead {
		log.Printf("message %d is too far ahead of %d: ignored", number, known)
		return
	}
	if number < m.expected {
		return
	}
	if number > m.highest {
		m.highest, m.highestAt = number, createdAt
	}
	if len(m.ahead) < mostAhead || number == m.expected {
		m.ahead[number] = createdAt
	} else if m.oldest == "" || createdAt < m.oldest {
		m.oldest = createdAt
	}
	m.advance()
}

// advance moves expected over what has come.
func (m *missing) advance() {
	moved := false
	for at, came := m.ahead[m.expected]; came; at, came = m.ahead[m.expected] {
		delete(m.ahead, m.expected)
		m.since, moved = at, true
		m.expected++
	}
	if m.expected > m.highest {
		m.openSince, m.oldest = time.Time{}, ""
	} else if moved || m.openSince.IsZero() {
		m.openSince = time.Now()
	}
}

// watch fetches what a gap hides once it has stayed for the wait. It never returns.
func (m *missing) watch() {
	for range time.Tick(max(min(m.wait, time.Second), time.Millisecond)) {
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
	highest, highestAt, since := m.highest, m.highestAt, m.since
	older := m.oldest != "" && m.oldest < since
	for _, at := range m.ahead {
		older = older || at < since
	}
	if older || since == "" {
		// Events that were sent as missed are older than the one before the gap, and the
		// missing ones can be older still.
		since = time.Now().UTC().Add(-retention).Format(time.RFC3339)
	}
	m.mu.Unlock()
	if err := m.fetch(since); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expected > highest {
		return nil // late messages closed the gap meanwhile
	}
	for number := range m.ahead {
		if number <= highest {
			delete(m.ahead, number)
		}
	}
	m.expected, m.since, m.openSince = highest+1, highestAt, time.Time{}
	m.advance()
	return nil
}

// fetch handles the events published since a time, a page at a time. It reads to the end,
// because numbers are not in the order of time. Those handled before are left out there.
func (m *missing) fetch(since string) error {
	query := url.Values{"created_since": {since}, "limit": {"100"}}
	for {
		p, err := m.page(query)
		if err != nil {
			return err
		}
		for _, e := range p.Data {
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
	if p.Data == nil {
		return p, errors.New("/v1/events answered something else than a page of events")
	}
	return p, nil
}
