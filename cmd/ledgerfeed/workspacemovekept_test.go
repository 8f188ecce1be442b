//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestWorkspaceMovesWithWhatPeopleHave: somebody who is signed in at the console stays so, a
// key has no more requests left than it had, one that is revoked while the workspace moves
// is revoked, and a delivery that waits for its next attempt waits on, with its number.
func TestWorkspaceMovesWithWhatPeopleHave(t *testing.T) { betweenPlaces(t, movesWithWhatPeopleHave) }

func movesWithWhatPeopleHave(t *testing.T, places [2]database) {
	t.Helper()
	h := newMovingPlaces(t, places, "10s,10s,10s,10s")
	key := func(name string, limit int) string {
		t.Helper()
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(h.run(0, "key", "create", "--workspace", "acme", "--name", name, "--scopes", "events:read,clients:read", "--rate-limit", strconv.Itoa(limit), "--json")), &made); err != nil {
			t.Fatal(err)
		}
		return made.Key
	}
	revoked, limited := key("revoked meanwhile", 1000), key("limited", 1_000_000)

	var well atomic.Bool
	failing := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	h.run(0, "webhook", "create", "--workspace", "acme", "--url", failing.URL, "--events", "invoice.reversed")
	consoles := [2]string{}
	for i := range consoles {
		consoles[i] = strings.TrimSpace(h.services[i].await("for=console url="))
	}
	browser := &http.Client{Jar: testkit.Must(cookiejar.New(nil))(t), Timeout: 30 * time.Second}
	at := func(method, address string) string {
		t.Helper()
		resp, err := browser.Do(testkit.Must(http.NewRequestWithContext(t.Context(), method, address, http.NoBody))(t))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return fmt.Sprintf("%d %s", resp.StatusCode, resp.Request.URL.Path)
	}
	// The console makes no links on a cluster yet, so nobody can sign in there.
	signedIn := !places[0].distributed
	if signedIn {
		_, token, _ := strings.Cut(strings.TrimSpace(h.run(0, "console", "link", "--workspace", "acme")), "/sign-in/")
		at(http.MethodPost, consoles[0]+"/sign-in/"+token)
		if got := at(http.MethodGet, consoles[0]+"/keys"); got != "200 /keys" {
			t.Fatalf("signed in: %s", got)
		}
	}

	// remaining asks once, and returns what is left of the minute.
	remaining := func(place int) (left int, reset time.Duration) {
		t.Helper()
		status, header := h.ask(place, limited)
		if status != http.StatusOK {
			t.Fatalf("a request of the limited key: %d", status)
		}
		seconds := testkit.Must(strconv.Atoi(header.Get("RateLimit-Reset")))(t)
		return testkit.Must(strconv.Atoi(header.Get("RateLimit-Remaining")))(t), time.Duration(seconds) * time.Second
	}
	// The move has to be over in the same minute.
	testkit.Within(t, time.Minute, func() error {
		if _, reset := remaining(0); reset < 40*time.Second {
			return fmt.Errorf("%v are left of the minute", reset)
		}
		return nil
	})
	for range 100 {
		remaining(0)
	}
	before, _ := remaining(0)
	minute := time.Now().Truncate(time.Minute)
	testkit.Eventually(t, func() error {
		return h.query(0, `SELECT CASE WHEN max(taken) >= 100 THEN '' ELSE coalesce(max(taken), 0) || ' counted' END FROM rate_count WHERE workspace_id = 'acme'`)
	})

	appended := h.command(0, "append")
	appended.Stdin = strings.NewReader(`{"workspace_id":"acme","id":"evt_1","type":"invoice.reversed","data":{"invoice_id":"in_1"}}` + "\n")
	if r := runCommand(t, appended); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	failing.Wait(t, 1) // and it waits for 10 s

	moving := startProcess(t, h.move(0))
	moving.await("acme: copy the log")
	if err := moving.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.run(0, "key", "revoke", h.idOfKey(0, "revoked meanwhile"))
	if err := moving.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := moving.wait(); code != cli.ExitDone {
		t.Fatalf("the move ended with %d:\n%s", code, moving.log)
	}

	if got := at(http.MethodGet, consoles[1]+"/keys"); signedIn && got != "200 /keys" {
		t.Errorf("at the console of the new place: %s", got)
	}
	if status, _ := h.ask(1, revoked); status != http.StatusUnauthorized {
		t.Errorf("the key that was revoked meanwhile: %d", status)
	}
	testkit.Eventually(t, func() error { // a process learns of counts within a moment
		if left, _ := remaining(1); left >= before {
			return fmt.Errorf("%d requests are left, and %d were before", left, before)
		}
		return nil
	})
	if now := time.Now().Truncate(time.Minute); !now.Equal(minute) {
		t.Errorf("the limit was compared in the minute %v, and counted in %v", now, minute)
	}

	well.Store(true)
	testkit.Within(t, time.Minute, func() error {
		return h.query(1, `SELECT CASE WHEN count(*) FILTER (WHERE state = 'succeeded' AND jsonb_array_length(attempts) > 1) = 1 THEN ''
			ELSE coalesce(string_agg(state || ' ' || attempts::text, ', '), 'none') END FROM webhook_delivery d
			WHERE workspace_id = 'acme' AND webhook_id = (SELECT webhook_id FROM webhook w WHERE w.url = '`+failing.URL+`')`)
	})
	all := failing.All()
	for _, r := range all {
		if r.Header.Get("SERVICE-Sequence") != "1" || r.Header.Get("SERVICE-Event-Id") != "evt_1" || r.Header.Get("SERVICE-Delivery-Id") != all[0].Header.Get("SERVICE-Delivery-Id") {
			t.Errorf("an attempt of another delivery: %v", r.Header)
		}
	}
	if err := h.query(1, fmt.Sprintf(`SELECT CASE WHEN max(jsonb_array_length(attempts)) = %d THEN '' ELSE max(jsonb_array_length(attempts)) || ' attempts' END
		FROM webhook_delivery WHERE workspace_id = 'acme' AND jsonb_array_length(attempts) > 1`, len(all))); err != nil {
		t.Errorf("%d attempts were made, and recorded are %v", len(all), err)
	}
}

// ask asks for events once.
func (h *movingPlaces) ask(place int, key string) (status int, header http.Header) {
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
func (h *movingPlaces) idOfKey(place int, name string) string {
	h.Helper()
	var list []struct{ ID, Name string }
	if err := json.Unmarshal([]byte(h.run(place, "key", "list", "--workspace", "acme", "--json")), &list); err != nil {
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
