package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// movingPlaces are two databases, each with a serving process, and a workspace that is
// appended to, read and delivered while it moves between them.
type movingPlaces struct {
	*testing.T
	urls     [2]string
	keys     [2]string // files with their secret keys
	apis     [2]string
	services [2]*process
	receiver *testkit.Receiver
	key      string
	retries  string // LEDGERFEED_RETRY_SCHEDULE
	to       string // the address at which moves reach the second place

	every time.Duration // the pause of the producer after each entry

	mu       sync.Mutex
	appended []string // ids that were acknowledged, in order
	seen     []string // ids that the follower has read, in order
}

// oftenAgain is a schedule with which a receiver that fails for a moment has all soon.
const oftenAgain = "1s,1s,1s,1s,1s,1s,1s"

// database makes databases of a kind.
type database struct {
	create      func(testing.TB) string
	distributed bool
}

// betweenPlaces runs a test of moves: between two databases of PostgreSQL, or, if there is a
// cluster beside it, to the cluster, from it, and between two databases of it.
func betweenPlaces(t *testing.T, test func(t *testing.T, places [2]database)) {
	t.Helper()
	t.Parallel()
	plain, distributed := database{testkit.NewDatabase, false}, database{testkit.ClusterDatabase, true}
	if !testkit.BesideCluster() {
		test(t, [2]database{plain, plain})
		return
	}
	for name, places := range map[string][2]database{
		"to a cluster": {plain, distributed}, "from a cluster": {distributed, plain}, "between clusters": {distributed, distributed},
	} {
		t.Run(name, func(t *testing.T) { test(t, places) }) // one after the other: a cluster has fewer connections
	}
}

func newMovingPlaces(t *testing.T, places [2]database, retries string) *movingPlaces {
	t.Helper()
	h := &movingPlaces{T: t, receiver: testkit.NewReceiver(t, nil), retries: retries}
	for i := range h.urls {
		h.urls[i] = places[i].create(t)
		h.keys[i] = filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(h.keys[i], fmt.Appendf(nil, "the key of the place number %d\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
		succeed(t, h.urls[i], "workspace", "create", "--id", fmt.Sprintf("neighbour-%d", i))
		h.services[i] = startProcess(t, h.command(i, "serve"))
		h.apis[i] = apiOf(h.services[i])
	}
	h.to = h.urls[1]
	h.run(0, "workspace", "create", "--id", "acme", "--name", "Acme Care", "--notify-email", "finance@acme.example")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(h.run(0, "key", "create", "--workspace", "acme", "--name", "reader", "--scopes", endpointScopes, "--rate-limit", "1000000", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	h.key = made.Key
	h.run(0, "webhook", "create", "--workspace", "acme", "--url", h.receiver.URL, "--events", "all")
	return h
}

// command prepares a command at one of the places.
func (h *movingPlaces) command(place int, args ...string) *exec.Cmd {
	h.Helper()
	c := command(h.T, h.urls[place], args...)
	key, err := os.ReadFile(h.keys[place])
	if err != nil {
		h.Fatal(err)
	}
	c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY="+strings.TrimSpace(string(key)), "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8",
		"LEDGERFEED_WEBHOOK_CA_FILE="+testkit.CAFile(h.T), "LEDGERFEED_RETRY_SCHEDULE="+h.retries)
	return c
}

func (h *movingPlaces) run(place int, args ...string) string {
	h.Helper()
	r := runCommand(h.T, h.command(place, args...))
	if r.code != cli.ExitDone {
		h.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

// move prepares the move from a place to the other one.
func (h *movingPlaces) move(from int, flags ...string) *exec.Cmd {
	h.Helper()
	to := h.urls[0]
	if from == 0 {
		to = h.to
	}
	return h.command(from, append([]string{
		"workspace", "move", "--id", "acme", "--to", to, "--to-secret-key-file", h.keys[1-from], "--public-address", h.apis[1-from], "--json",
	}, flags...)...)
}

// appendAll appends entries one after the other until ctx ends, wherever the workspace is,
// as a producer does that tries again.
func (h *movingPlaces) appendAll(ctx context.Context, logs [2]*eventlog.Log, at *int) error {
	for n := 0; ctx.Err() == nil; n++ {
		draft, err := domain.NewDraft("acme", "invoice.reversed", fmt.Appendf(nil, `{"invoice_id":"in_%d"}`, n))
		if err != nil {
			return err
		}
		draft.ID = fmt.Sprintf("evt_%06d", n)
		appended := false
		for !appended {
			_, err := logs[*at].Append(context.WithoutCancel(ctx), draft)
			m, moved := errors.AsType[*eventlog.MovedError](err)
			switch {
			case err == nil:
				appended = true
				continue
			case !moved:
				return err
			case m.Away || *at == 1:
				*at = 1 - *at
			}
			if ctx.Err() != nil {
				break // the workspace is at neither place while the test ends
			}
			<-time.After(time.Millisecond) // the pause of a producer
		}
		if !appended {
			break
		}
		h.mu.Lock()
		h.appended = append(h.appended, draft.ID)
		h.mu.Unlock()
		if h.every > 0 {
			<-time.After(h.every)
		}
	}
	return nil
}

// follow reads the feed by its cursor until over, and goes where it is told.
func (h *movingPlaces) follow(over <-chan struct{}) error {
	address, cursor := h.apis[0], ""
	for last := false; ; {
		select {
		case <-over:
			last = true
		default:
		}
		status, body, err := h.page(address, cursor)
		if err != nil {
			return err
		}
		var p struct {
			page
			MovedTo string `json:"moved_to"`
		}
		if err := json.Unmarshal(body, &p); err != nil {
			return err
		}
		switch {
		case status == http.StatusServiceUnavailable && p.MovedTo != "":
			address = p.MovedTo
			continue
		case status == http.StatusServiceUnavailable:
			continue
		case status != http.StatusOK:
			return fmt.Errorf("%s: %d %s", address, status, body)
		}
		for _, row := range p.Data {
			var e struct{ ID string }
			if err := json.Unmarshal(row, &e); err != nil {
				return err
			}
			h.seen = append(h.seen, e.ID)
		}
		cursor = p.NextCursor
		if last && len(p.Data) == 0 {
			return nil
		}
	}
}

func (h *movingPlaces) page(address, cursor string) (status int, body []byte, err error) {
	path := address + "/v1/events?limit=100"
	if cursor != "" {
		path += "&cursor=" + url.QueryEscape(cursor)
	}
	req, err := http.NewRequestWithContext(h.Context(), http.MethodGet, path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+h.key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return resp.StatusCode, b.Bytes(), err
}

// live appends, reads and delivers while do moves the workspace; at is where it begins.
func (h *movingPlaces) live(do func()) {
	h.Helper()
	var logs [2]*eventlog.Log
	for i := range logs {
		log, closeLog, err := openLog(h.Context(), h.urls[i])
		if err != nil {
			h.Fatal(err)
		}
		h.Cleanup(closeLog)
		logs[i] = log
	}
	producing, stop := context.WithCancel(h.Context())
	over := make(chan struct{})
	var group sync.WaitGroup
	var errs [2]error
	at := 0
	group.Go(func() { errs[0] = h.appendAll(producing, logs, &at) })
	following := make(chan struct{})
	go func() {
		defer close(following)
		errs[1] = h.follow(over)
	}()
	do()
	stop()
	group.Wait()
	h.Logf("%d entries were appended", len(h.appended))
	testkit.Within(h.T, time.Minute, func() error { return h.projected(at) })
	close(over)
	<-following
	if err := errors.Join(errs[:]...); err != nil {
		h.Fatal(err)
	}
}

// projected tells whether the read models of the place have everything.
func (h *movingPlaces) projected(place int) error {
	return h.query(place, `SELECT CASE WHEN h.position = c.position THEN '' ELSE h.position || ' and ' || c.position END
		FROM log_head h JOIN log_checkpoint c USING (workspace_id) WHERE h.workspace_id = 'acme' AND c.consumer = 'read_models'`)
}

// query fails unless a query gives an empty text.
func (h *movingPlaces) query(place int, sql string) error {
	conn, err := pgx.Connect(h.Context(), h.urls[place])
	if err != nil {
		return err
	}
	defer conn.Close(h.Context())
	var text string
	if err := conn.QueryRow(h.Context(), sql).Scan(&text); err != nil {
		return err
	}
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// execute executes SQL at a place.
func (h *movingPlaces) execute(place int, sql string) {
	h.Helper()
	conn := testkit.Must(pgx.Connect(h.Context(), h.urls[place]))(h.T)
	defer conn.Close(h.Context())
	testkit.Must(conn.Exec(h.Context(), sql))(h.T)
}

// whole checks that nothing was lost or doubled, and that one place alone has the workspace.
func (h *movingPlaces) whole(place int) {
	h.Helper()
	if !slices.Equal(h.seen, h.appended) {
		h.Errorf("the follower has %d events of %d: %s", len(h.seen), len(h.appended), firstDifference(h.seen, h.appended))
	}
	h.run(place, "verify", "--workspace", "acme")
	testkit.Within(h.T, time.Minute, func() error {
		got := map[string]int{}
		numbers := map[string]string{}
		for _, r := range h.receiver.All() {
			id := r.Header.Get("SERVICE-Event-Id")
			got[id]++
			if n := r.Header.Get("SERVICE-Sequence"); numbers[n] != "" && numbers[n] != id {
				return fmt.Errorf("the number %s is of %s and %s", n, numbers[n], id)
			}
			numbers[r.Header.Get("SERVICE-Sequence")] = id
		}
		for _, id := range h.appended {
			if got[id] == 0 {
				return fmt.Errorf("%s was not delivered; %d of %d were", id, len(got), len(h.appended))
			}
		}
		if len(numbers) != len(h.appended) {
			return fmt.Errorf("%d numbers for %d events", len(numbers), len(h.appended))
		}
		for n := range len(h.appended) {
			if numbers[strconv.Itoa(n+1)] == "" {
				return fmt.Errorf("the number %d is missing", n+1)
			}
		}
		return nil
	})
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("number %d is %s, want %s", i, got[i], want[i])
		}
	}
	return fmt.Sprint(len(got), " and ", len(want))
}

// A workspace moves while it is appended to, read and delivered: the follower goes on with
// its cursor and misses nothing, sequence numbers have no gap, and the key works there.
func TestWorkspaceMoves(t *testing.T) { betweenPlaces(t, moves) }

func moves(t *testing.T, places [2]database) {
	t.Helper()
	h := newMovingPlaces(t, places, oftenAgain)
	var v movedView
	h.live(func() {
		testkit.Within(t, time.Minute, func() error { return h.enough(300) })
		r := runCommand(t, h.move(0))
		if r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
		if err := json.Unmarshal([]byte(r.out), &v); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		n := len(h.appended)
		h.mu.Unlock()
		testkit.Within(t, time.Minute, func() error { return h.enough(n + 200) })
	})
	t.Logf("appends were refused for %.3f s at position %d; %d rows of history", v.Refused, v.Position, v.History)
	h.whole(1)
	if v.State != "complete" || v.Position < 300 || v.Refused <= 0 {
		t.Errorf("%+v", v)
	}
	before, after := h.run(0, "export", "--workspace", "acme", "--chain"), h.run(1, "export", "--workspace", "acme", "--chain")
	if !strings.HasPrefix(after, before) {
		t.Error("the log is another one at the new place")
	}
	// The old place refuses, and says where the workspace is.
	if r := runCommand(t, h.command(0, "key", "create", "--workspace", "acme", "--name", "late", "--scopes", "invoices:read")); r.code == cli.ExitDone || !strings.Contains(r.errOut, "has moved to "+h.apis[1]) {
		t.Errorf("%+v", r)
	}
	if r := runCommand(t, h.move(0, "--undo")); r.code == cli.ExitDone || !strings.Contains(r.errOut, "--finish") {
		t.Errorf("undo of a move that is over: %+v", r)
	}
	// A move back that comes too early changes nothing: the end of this one is still proved.
	if r := runCommand(t, h.move(1)); r.code == cli.ExitDone || !strings.Contains(r.errOut, "has the workspace acme already") {
		t.Errorf("back before the end: %+v", r)
	}
	h.run(0, "workspace", "move", "--id", "acme", "--to", h.urls[1], "--finish")
	h.run(0, "verify")
	if out := h.run(0, "export", "--workspace", "acme"); out != "" {
		t.Errorf("%d bytes are left at the old place", len(out))
	}
	if status, body, err := h.page(h.apis[0], ""); err != nil || status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(h.apis[1])) {
		t.Errorf("%d %s %v", status, body, err)
	}
	// And back, where its tombstone is, and where the reader who was refused has used a key.
	h.execute(0, `INSERT INTO api_key_use (workspace_id, key_id, last_used_at) SELECT workspace_id, key_id, now() FROM api_key WHERE workspace_id = 'acme' ON CONFLICT DO NOTHING`)
	if r := runCommand(t, h.move(1)); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	h.run(0, "verify", "--workspace", "acme")
	if back := h.run(0, "export", "--workspace", "acme", "--chain"); back != after {
		t.Error("the log is another one after it has come back")
	}
}

func (h *movingPlaces) enough(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.appended) < n {
		return fmt.Errorf("%d entries of %d", len(h.appended), n)
	}
	return nil
}

// moveSteps are what a move says of itself, in this order.
func moveSteps() []string {
	return []string{"copy the log", "hold deliveries", "refuse appends", "copy the newest entries", "compare", "leave", "open", "copy the history"}
}

// moveUntil starts a move and waits until it is at a step, or has ended before that.
func (h *movingPlaces) moveUntil(step string) *process {
	h.Helper()
	moving := startProcess(h.T, h.move(0, "--fence", "3s"))
	testkit.Within(h.T, time.Minute, func() error {
		select {
		case <-moving.done:
			return nil
		default:
		}
		if !strings.Contains(moving.log.String(), "acme: "+step) {
			return fmt.Errorf("not at %q:\n%s", step, moving.log)
		}
		return nil
	})
	return moving
}

// However often the command is killed, the move can be run again or undone, and nothing is
// lost, doubled or taken at both places.
func TestWorkspaceMoveKilled(t *testing.T) { betweenPlaces(t, moveKilled) }

func moveKilled(t *testing.T, places [2]database) {
	t.Helper()
	h := newMovingPlaces(t, places, oftenAgain)
	steps := moveSteps()
	rng := rand.New(rand.NewPCG(1, 2))
	undone := 0
	h.live(func() {
		testkit.Within(t, time.Minute, func() error { return h.enough(100) })
		for round := range kills(t, 2*len(steps)) {
			step := steps[round%len(steps)]
			moving := h.moveUntil(step)
			late := time.NewTimer(time.Duration(rng.IntN(30)) * time.Millisecond)
			<-late.C
			moving.kill()
			r := runCommand(t, h.move(0, "--undo"))
			switch {
			case r.code == cli.ExitDone:
				undone++
			case strings.Contains(r.errOut, "--finish"): // it was open already
				r := runCommand(t, h.move(0))
				if r.code != cli.ExitDone {
					t.Fatalf("round %d, after %s: %+v", round, step, r)
				}
				return
			default:
				t.Fatalf("round %d, after %s: %+v", round, step, r)
			}
			h.mu.Lock()
			n := len(h.appended)
			h.mu.Unlock()
			testkit.Within(t, time.Minute, func() error { return h.enough(n + 20) })
		}
		if r := runCommand(t, h.move(0)); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	})
	t.Logf("%d moves were undone", undone)
	h.whole(1)
}

// Killed at every step and run again, never undone.
func TestWorkspaceMoveRunAgain(t *testing.T) { betweenPlaces(t, moveRunAgain) }

func moveRunAgain(t *testing.T, places [2]database) {
	t.Helper()
	h := newMovingPlaces(t, places, oftenAgain)
	h.live(func() {
		testkit.Within(t, time.Minute, func() error { return h.enough(100) })
		for _, step := range moveSteps() {
			moving := h.moveUntil(step)
			moving.kill()
		}
		if r := runCommand(t, h.move(0)); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	})
	h.whole(1)
}

// Over a link that is slow, breaks and goes silent, a move takes longer or ends with an error,
// appends are refused for no longer than the fence lasts, and the move can be run again.
func TestWorkspaceMoveOverABadLink(t *testing.T) { betweenPlaces(t, moveOverABadLink) }

func moveOverABadLink(t *testing.T, places [2]database) {
	t.Helper()
	h := newMovingPlaces(t, places, oftenAgain)
	link := h.overALink()
	link.Delay(20 * time.Millisecond)
	h.every = 10 * time.Millisecond
	h.live(func() {
		testkit.Within(t, time.Minute, func() error { return h.enough(100) })
		for _, step := range []string{"copy the log", "copy the newest entries"} {
			moving := h.moveUntil(step)
			link.Cut()
			if code := moving.wait(); code == cli.ExitDone {
				t.Errorf("a move whose link broke at %q was over:\n%s", step, moving.log)
			}
		}
		moving := h.moveUntil("refuse appends")
		link.Partition()
		h.mu.Lock()
		n := len(h.appended)
		h.mu.Unlock()
		testkit.Within(t, time.Minute, func() error { return h.enough(n + 20) }) // the fence is over, or was not reached
		moving.kill()
		link.Restore()
		if r := runCommand(t, h.move(0)); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	})
	h.whole(1)
}

// overALink makes moves reach the second place through a proxy.
func (h *movingPlaces) overALink() *badnetwork.Proxy {
	h.Helper()
	config := testkit.Must(pgx.ParseConfig(h.urls[1]))(h.T)
	upstream := fmt.Sprintf("%s:%d", config.Host, config.Port)
	if strings.HasPrefix(config.Host, "/") {
		upstream = fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	link := testkit.Must(badnetwork.Listen(h.Context(), upstream))(h.T)
	h.Cleanup(func() { _ = link.Close() })
	h.to = fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", config.User, link.Address(), config.Database)
	return link
}
