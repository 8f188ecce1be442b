package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// withWhatPeopleHave: somebody who is signed in at the console stays so, a key has no more
// requests left than it had, one that is revoked while the workspace moves is revoked, and a
// delivery that waits for its next attempt waits on, with its number.
func (h *movingWorkspace) withWhatPeopleHave() {
	h.Helper()
	const scopes = "events:read,clients:read"
	revoked, limited := h.newKey("revoked meanwhile", scopes, 1000), h.newKey("limited", scopes, 1_000_000)

	failing := testkit.NewReceiver(h.T, nil)
	failing.Answer(http.StatusServiceUnavailable)
	var hook struct{ ID string }
	if err := json.Unmarshal([]byte(h.run(0, "webhook", "create", "--workspace", h.id, "--url", failing.URL, "--events", "invoice.reversed", "--json")), &hook); err != nil {
		h.Fatal(err)
	}
	for range 2 { // three secrets sign, at both places
		h.run(0, "webhook", "rotate-secret", hook.ID)
	}
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(h.T), Timeout: 30 * time.Second}
	at := func(method, address string) string {
		h.Helper()
		resp, err := browser.Do(testkit.Must(http.NewRequestWithContext(h.Context(), method, address, http.NoBody))(h.T))
		if err != nil {
			h.Fatal(err)
		}
		_ = resp.Body.Close()
		return fmt.Sprintf("%d %s", resp.StatusCode, resp.Request.URL.Path)
	}
	_, token, _ := strings.Cut(strings.TrimSpace(h.run(0, "console", "link", "--workspace", h.id)), "/sign-in/")
	at(http.MethodPost, h.consoles[0]+"/sign-in/"+token)
	if got := at(http.MethodGet, h.consoles[0]+"/keys"); got != "200 /keys" {
		h.Fatalf("signed in: %s", got)
	}

	// remaining asks once, and returns what is left of the minute.
	remaining := func(place int) int {
		h.Helper()
		status, header := h.ask(place, limited)
		if status != http.StatusOK {
			h.Fatalf("a request of the limited key: %d", status)
		}
		return testkit.Must(strconv.Atoi(header.Get("RateLimit-Remaining")))(h.T)
	}
	// Another minute may begin at any time, and then the count begins, too.
	const asked = 100
	for range asked {
		remaining(0)
	}
	testkit.Eventually(h.T, func() error {
		err := h.query(0, countSQL, h.id, asked)
		if err != nil {
			remaining(0)
		}
		return err
	})
	minute := h.minuteOfCount()

	appended := h.command(h.T, 0, "append")
	appended.Stdin = strings.NewReader(fmt.Sprintf(`{"workspace_id":%q,"id":"evt_1","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`+"\n", h.id))
	if r := runCommand(h.T, appended); r.code != cli.ExitDone {
		h.Fatalf("append: exit %d\n%s", r.code, r.errOut)
	}
	failing.Wait(h.T, 1) // and it waits for the next attempt

	code, messages := h.moveWith(h.Context(), "copy the log", func() { h.run(0, "key", "revoke", h.idOfKey(0, "revoked meanwhile")) })
	if code != cli.ExitDone {
		h.Fatalf("the move: exit %d\n%s", code, messages)
	}
	if err := h.query(1, countSQL, h.id, asked); err != nil {
		h.Errorf("at the new place the key has made %v", err)
	}

	if got := at(http.MethodGet, h.consoles[1]+"/keys"); got != "200 /keys" {
		h.Errorf("at the console of the new place: %s", got)
	}
	if status, _ := h.ask(1, revoked); status != http.StatusUnauthorized {
		h.Errorf("the key that was revoked meanwhile: %d", status)
	}
	testkit.Eventually(h.T, func() error { // a process learns of counts within a moment
		left := remaining(1)
		if left >= 1_000_000-asked && h.query(1, thisMinuteSQL, minute) == nil {
			return fmt.Errorf("%d requests are left after %d were made in this minute at the old place", left, asked)
		}
		return nil
	})

	failing.Answer(http.StatusOK)
	testkit.Eventually(h.T, func() error {
		return h.query(1, `SELECT CASE WHEN count(*) FILTER (WHERE state = 'succeeded' AND jsonb_array_length(attempts) > 1) = 1 THEN ''
			ELSE coalesce(string_agg(state || ' ' || attempts::text, ', '), 'none') END FROM webhook_delivery d
			WHERE workspace_id = $1 AND webhook_id = (SELECT webhook_id FROM webhook w WHERE w.url = $2)`, h.id, failing.URL)
	})
	all := failing.All()
	for _, r := range all {
		if r.Header.Get("SERVICE-Log-Position") != all[0].Header.Get("SERVICE-Log-Position") || r.Header.Get("SERVICE-Event-Id") != "evt_1" || r.Header.Get("SERVICE-Delivery-Id") != all[0].Header.Get("SERVICE-Delivery-Id") {
			h.Errorf("an attempt of another delivery: %v", r.Header)
		}
		if signature := r.Header.Get("SERVICE-Signature"); strings.Count(signature, "v1=") != 3 {
			h.Errorf("signed %q, want three signatures", signature)
		}
	}
	if err := h.query(1, `SELECT CASE WHEN max(jsonb_array_length(attempts)) = $2 THEN '' ELSE max(jsonb_array_length(attempts)) || ' attempts' END
		FROM webhook_delivery WHERE workspace_id = $1 AND jsonb_array_length(attempts) > 1`, h.id, len(all)); err != nil {
		h.Errorf("%d attempts were made, and recorded are %v", len(all), err)
	}
}

const (
	// countSQL complains unless a key of the workspace has made so many requests in a minute.
	countSQL = `SELECT CASE WHEN max(taken) >= $2 THEN '' ELSE coalesce(max(taken), 0) || ' requests in a minute' END FROM rate_count WHERE workspace_id = $1`
	// thisMinuteSQL complains where another minute than the given one runs.
	thisMinuteSQL = `SELECT CASE WHEN floor(extract(epoch FROM clock_timestamp()) / 60)::bigint = $1 THEN '' ELSE 'another minute' END`
)

// minuteOfCount is the minute of the largest count of requests at the first place.
func (h *movingWorkspace) minuteOfCount() (minute int64) {
	h.Helper()
	conn := testkit.Must(pgx.Connect(h.Context(), h.urls[0]))(h.T)
	defer conn.Close(h.Context())
	if err := conn.QueryRow(h.Context(), `SELECT minute FROM rate_count WHERE workspace_id = $1 ORDER BY taken DESC LIMIT 1`, h.id).Scan(&minute); err != nil {
		h.Fatal(err)
	}
	return minute
}

// ask asks for events once.
func (h *movingWorkspace) ask(place int, key string) (status int, header http.Header) {
	h.Helper()
	req := testkit.Must(http.NewRequestWithContext(h.Context(), http.MethodGet, h.apis[place]+"/v1/events?limit=1", http.NoBody))(h.T)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// idOfKey finds a key by its name.
func (h *movingWorkspace) idOfKey(place int, name string) string {
	h.Helper()
	var list []struct{ ID, Name string }
	if err := json.Unmarshal([]byte(h.run(place, "key", "list", "--workspace", h.id, "--json")), &list); err != nil {
		h.Fatal(err)
	}
	for _, k := range list {
		if k.Name == name {
			return k.ID
		}
	}
	h.Fatalf("no key is called %s: %+v", name, list)
	return ""
}
