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

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// movingPlaces are two databases, each with a serving process.
type movingPlaces struct {
	urls     [2]string
	keys     [2]string // files with their secret keys
	apis     [2]string
	consoles [2]string
	services [2]*process
}

// movingWorkspace is a workspace that is appended to, read and delivered while it moves
// between the places.
type movingWorkspace struct {
	*testing.T
	*movingPlaces
	id       string
	receiver *testkit.Receiver
	key      string
	to       string // the address at which moves reach the second place

	every time.Duration // the pause of the producer after each entry

	mu       sync.Mutex
	appended []string // ids that were acknowledged, in order
	seen     []string // ids that the follower has read, in order
	end      string   // the address at which it has everything; set when it is to end
	more     chan struct{}
}

// oftenAgain is a schedule with which a receiver that fails for a moment has all soon, and
// one that a busy machine delays for half a minute is not given up.
var oftenAgain = strings.TrimSuffix(strings.Repeat("2s,", 30), ",")

func newMovingPlaces(t *testing.T) *movingPlaces {
	t.Helper()
	p := &movingPlaces{}
	for i := range p.urls {
		p.urls[i] = testkit.NewDatabase(t)
		p.keys[i] = filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(p.keys[i], fmt.Appendf(nil, "the key of the place number %d\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
		succeed(t, p.urls[i], "workspace", "create", "--id", fmt.Sprintf("neighbour-%d", i))
		p.services[i] = startProcess(t, p.command(t, i, "serve"))
	}
	for i, serving := range p.services {
		p.apis[i] = apiOf(serving)
		p.consoles[i] = strings.TrimSpace(serving.await("for=console url="))
	}
	return p
}

// command prepares a command at one of the places.
func (p *movingPlaces) command(t *testing.T, place int, args ...string) *exec.Cmd {
	t.Helper()
	c := command(t, p.urls[place], args...)
	key, err := os.ReadFile(p.keys[place])
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY="+strings.TrimSpace(string(key)), "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8",
		"LEDGERFEED_WEBHOOK_CA_FILE="+testkit.CAFile(t), "LEDGERFEED_RETRY_SCHEDULE="+oftenAgain)
	return c
}

// workspace makes a workspace at the first place.
func (p *movingPlaces) workspace(t *testing.T, id string) *movingWorkspace {
	t.Helper()
	h := &movingWorkspace{T: t, movingPlaces: p, id: id, receiver: testkit.NewReceiver(t, nil), to: p.urls[1], more: make(chan struct{}, 1)}
	h.run(0, "workspace", "create", "--id", id, "--name", "Acme Care", "--notify-email", "finance@acme.example")
	h.key = h.newKey("reader", endpointScopes, 1_000_000)
	h.run(0, "webhook", "create", "--workspace", id, "--url", h.receiver.URL, "--events", "all")
	return h
}

// newKey makes a key at the first place.
func (h *movingWorkspace) newKey(name, scopes string, limit int) string {
	h.Helper()
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(h.run(0, "key", "create", "--workspace", h.id, "--name", name, "--scopes", scopes, "--rate-limit", strconv.Itoa(limit), "--json")), &made); err != nil {
		h.Fatal(err)
	}
	return made.Key
}

func (h *movingWorkspace) run(place int, args ...string) string {
	h.Helper()
	r := runCommand(h.T, h.command(h.T, place, args...))
	if r.code != cli.ExitDone {
		h.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

// move prepares the move from a place to the other one.
func (h *movingWorkspace) move(from int, flags ...string) *exec.Cmd {
	h.Helper()
	to := h.urls[0]
	if from == 0 {
		to = h.to
	}
	return h.command(h.T, from, append([]string{
		"workspace", "move", "--id", h.id, "--to", to, "--to-secret-key-file", h.keys[1-from], "--public-address", h.apis[1-from], "--json",
	}, flags...)...)
}

// mustMove moves the workspace to its end.
func (h *movingWorkspace) mustMove(from int, flags ...string) (v movedView) {
	h.Helper()
	r := runCommand(h.T, h.move(from, flags...))
	if r.code != cli.ExitDone {
		h.Fatalf("workspace move from place %d: exit %d\n%s%s", from, r.code, r.out, r.errOut)
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		h.Fatalf("workspace move --json wrote %q: %v", r.out, err)
	}
	return v
}

// cannot runs a command that must fail, and say why.
func (h *movingWorkspace) cannot(c *exec.Cmd, why string) {
	h.Helper()
	if r := runCommand(h.T, c); r.code != cli.ExitFailed || !strings.Contains(r.errOut, why) {
		h.Errorf("%q: exit %d, want %d and %q in:\n%s%s", c.Args[1:], r.code, cli.ExitFailed, why, r.out, r.errOut)
	}
}

// moveWith moves the workspace in this process, and does something as soon as the move says
// that it comes to a step, before it goes on. It returns the exit status and the messages.
func (h *movingWorkspace) moveWith(ctx context.Context, step string, do func(), flags ...string) (code int, messages string) {
	h.Helper()
	c := h.move(0, flags...)
	errOut := &atStep{line: h.id + ": " + step + "\n", do: do}
	env := &operate.Env{Env: cli.Env{In: strings.NewReader(""), Out: &testkit.Buffer{}, ErrOut: errOut, Clock: time.Now, Environ: c.Env}}
	code = env.Execute(ctx, rootCommand(env), c.Args[1:])
	if !errOut.done {
		h.Errorf("the move did not come to %q:\n%s", step, errOut.String())
	}
	return code, errOut.String()
}

// atStep does something when a line is written to it for the first time.
type atStep struct {
	testkit.Buffer
	line string
	do   func()
	done bool
}

func (w *atStep) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if string(p) == w.line && !w.done {
		w.done = true
		w.do()
	}
	return n, err
}

// appendAll appends entries one after the other until ctx ends, wherever the workspace is,
// as a producer does that tries again.
func (h *movingWorkspace) appendAll(ctx context.Context, logs [2]*eventlog.Log, at *int) error {
	for n := 0; ctx.Err() == nil; n++ {
		draft, err := domain.NewDraft(h.id, "invoice.reversed", fmt.Appendf(nil, `{"invoice_id":"in_%d"}`, n))
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
			flow.Sleep(ctx, time.Millisecond) // as a producer does
		}
		if !appended {
			break
		}
		h.mu.Lock()
		h.appended = append(h.appended, draft.ID)
		h.mu.Unlock()
		select {
		case h.more <- struct{}{}:
		default:
		}
		flow.Sleep(ctx, h.every)
	}
	return nil
}

// pauseOfFollower is short enough to ask in the middle of each step of a move.
const pauseOfFollower = 5 * time.Millisecond

// follow reads the feed by its cursor until over, and goes where it is told.
func (h *movingWorkspace) follow(over <-chan struct{}) error {
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
			flow.Sleep(h.Context(), pauseOfFollower)
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
		switch {
		case len(p.Data) > 0:
		case last && address == h.end: // another place may not know for a second that the workspace has left
			return nil
		default:
			flow.Sleep(h.Context(), pauseOfFollower)
		}
	}
}

func (h *movingWorkspace) page(address, cursor string) (status int, body []byte, err error) {
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
func (h *movingWorkspace) live(do func()) {
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
	group.Go(func() {
		errs[0] = h.appendAll(producing, logs, &at)
		close(h.more)
	})
	following := make(chan struct{})
	go func() {
		defer close(following)
		errs[1] = h.follow(over)
	}()
	defer func() { stop(); group.Wait() }() // where do ends the test
	do()
	stop()
	group.Wait()
	testkit.Eventually(h.T, func() error { return h.projected(at) })
	h.end = h.apis[at]
	close(over)
	<-following
	if err := errors.Join(errs[:]...); err != nil {
		h.Fatal(err)
	}
}

// projected tells whether the read models of the place have everything.
func (h *movingWorkspace) projected(place int) error {
	return h.query(place, `SELECT CASE WHEN h.position = c.position THEN '' ELSE 'the log ends at ' || h.position || ', the read models are at ' || c.position END
		FROM log_head h JOIN log_checkpoint c USING (workspace_id) WHERE h.workspace_id = $1 AND c.consumer = 'read_models'`, h.id)
}

// query fails unless a query gives an empty text.
func (h *movingWorkspace) query(place int, sql string, args ...any) error {
	conn, err := pgx.Connect(h.Context(), h.urls[place])
	if err != nil {
		return err
	}
	defer conn.Close(h.Context())
	var text string
	if err := conn.QueryRow(h.Context(), sql, args...).Scan(&text); err != nil {
		return err
	}
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// sql executes SQL at a place.
func (h *movingWorkspace) sql(place int, sql string, args ...any) {
	h.Helper()
	conn := testkit.Must(pgx.Connect(h.Context(), h.urls[place]))(h.T)
	defer conn.Close(h.Context())
	testkit.Must(conn.Exec(h.Context(), sql, args...))(h.T)
}

// whole checks that nothing was lost or doubled, and that one place alone has the workspace.
func (h *movingWorkspace) whole(place int) {
	h.Helper()
	if !slices.Equal(h.seen, h.appended) {
		h.Errorf("the follower has %d events of %d: %s", len(h.seen), len(h.appended), firstDifference(h.seen, h.appended))
	}
	h.run(place, "verify", "--workspace", h.id)
	testkit.Eventually(h.T, func() error {
		got := map[string]int{}
		positions := map[string]string{}
		for _, r := range h.receiver.All() {
			id := r.Header.Get("SERVICE-Event-Id")
			got[id]++
			n := r.Header.Get("SERVICE-Log-Position")
			if positions[n] != "" && positions[n] != id {
				return fmt.Errorf("the position %s is of %s and %s", n, positions[n], id)
			}
			positions[n] = id
		}
		for _, id := range h.appended {
			if got[id] == 0 {
				return fmt.Errorf("%s was not delivered; %d of %d were", id, len(got), len(h.appended))
			}
		}
		if len(positions) != len(h.appended) {
			return fmt.Errorf("%d positions for %d events", len(positions), len(h.appended))
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
	return fmt.Sprintf("%d and %d", len(got), len(want))
}

// TestWorkspaceMoves moves workspaces between the same two places, one after the other, each
// in a way of its own. Nothing is lost, doubled or taken at both places.
func TestWorkspaceMoves(t *testing.T) {
	t.Parallel()
	p := newMovingPlaces(t)
	for _, c := range []struct {
		id   string
		move func(*movingWorkspace)
	}{
		{"there-and-back", (*movingWorkspace).thereAndBack},
		{"killed-and-undone", (*movingWorkspace).killedAndUndone},
		{"killed-and-run-again", (*movingWorkspace).killedAndRunAgain},
		{"over-a-bad-link", (*movingWorkspace).overABadLink},
		{"with-what-people-have", (*movingWorkspace).withWhatPeopleHave},
	} {
		t.Run(c.id, func(t *testing.T) { c.move(p.workspace(t, c.id)) })
	}
}

// thereAndBack: the follower goes on with its cursor and misses nothing, messages keep
// their positions, and the key works there.
func (h *movingWorkspace) thereAndBack() {
	h.Helper()
	before, during := testkit.Scale(100, 300), testkit.Scale(50, 200)
	var v movedView
	h.live(func() {
		h.appendMore(before)
		v = h.mustMove(0)
		h.appendMore(during)
	})
	h.whole(1)
	if v.State != "complete" || v.Position < int64(before) || v.Refused <= 0 {
		h.Errorf("the move says %+v, want it complete, at position %d or later, with a time in which appends were refused", v, before)
	}
	here, there := h.run(0, "export", "--workspace", h.id, "--chain"), h.run(1, "export", "--workspace", h.id, "--chain")
	if !strings.HasPrefix(there, here) {
		h.Error("the log at the new place does not begin with the log of the old place")
	}
	// The old place refuses, and says where the workspace is.
	h.cannot(h.command(h.T, 0, "key", "create", "--workspace", h.id, "--name", "late", "--scopes", "invoices:read"), "has moved to "+h.apis[1])
	h.cannot(h.move(0, "--undo"), "--finish") // the move is over
	// A move back that comes too early changes nothing: the end of this one is still proved.
	h.cannot(h.move(1), "has the workspace "+h.id+" already")
	h.run(0, "workspace", "move", "--id", h.id, "--to", h.urls[1], "--finish")
	h.run(0, "verify")
	if out := h.run(0, "export", "--workspace", h.id); out != "" {
		h.Errorf("%d bytes are left at the old place", len(out))
	}
	if status, body, err := h.page(h.apis[0], ""); err != nil || status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(h.apis[1])) {
		h.Errorf("the old place answers %d %s (%v), want 503 with the address %s", status, body, err, h.apis[1])
	}
	// And back, where its log is closed, and where the reader who was refused has used a key.
	h.sql(0, `INSERT INTO api_key_use (workspace_id, key_id, last_used_at) SELECT workspace_id, key_id, now() FROM api_key WHERE workspace_id = $1 ON CONFLICT DO NOTHING`, h.id)
	h.mustMove(1)
	h.run(0, "verify", "--workspace", h.id)
	if back := h.run(0, "export", "--workspace", h.id, "--chain"); back != there {
		h.Error("the log is another one after it has come back")
	}
}

// appendMore waits until the producer has appended so many more entries.
func (h *movingWorkspace) appendMore(n int) {
	h.Helper()
	length := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.appended)
	}
	for want := length() + n; length() < want; {
		if _, appending := <-h.more; !appending {
			h.Fatalf("the producer ended after %d entries", length())
		}
	}
}

// moveSteps are what a move says of itself, in this order.
func moveSteps() []string {
	return []string{"copy the log", "hold deliveries", "refuse appends", "copy the newest entries", "compare", "leave", "open", "copy the history"}
}

// moveUntil starts a move in a process of its own and waits until it is at a step, or has
// ended before that.
func (h *movingWorkspace) moveUntil(step string) *process {
	h.Helper()
	moving := startProcess(h.T, h.move(0, "--fence", "3s"))
	testkit.Eventually(h.T, func() error {
		select {
		case <-moving.done:
			return nil
		default:
		}
		if !strings.Contains(moving.log.String(), h.id+": "+step) {
			return fmt.Errorf("the move has not come to %q:\n%s", step, moving.log)
		}
		return nil
	})
	return moving
}

// killedAndUndone: however often the command is killed, the move can be undone, or run again
// once the workspace is open at the new place.
func (h *movingWorkspace) killedAndUndone() {
	h.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	undone := 0
	h.live(func() {
		h.appendMore(testkit.Scale(30, 100))
		for range testkit.Scale(1, 3) {
			for _, step := range moveSteps()[:5] { // it is not open yet, and can be undone
				moving := h.moveUntil(step)
				flow.Sleep(h.Context(), time.Duration(rng.IntN(30))*time.Millisecond)
				moving.kill()
				if !h.undo() {
					return
				}
				undone++
				h.appendMore(20)
			}
		}
		for _, step := range moveSteps()[5:] {
			h.moveUntil(step).kill()
			if !h.undo() {
				return
			}
			undone++
		}
		h.mustMove(0)
	})
	if undone == 0 {
		h.Error("no move was undone")
	}
	h.whole(1)
}

// undo gives a workspace back to the first place, or finishes the move where that is too late.
func (h *movingWorkspace) undo() (undone bool) {
	h.Helper()
	r := runCommand(h.T, h.move(0, "--undo"))
	switch {
	case r.code == cli.ExitDone:
		return true
	case strings.Contains(r.errOut, "--finish"): // it was open already
		h.mustMove(0)
		return false
	}
	h.Fatalf("undo: exit %d\n%s%s", r.code, r.out, r.errOut)
	return false
}

// killedAndRunAgain: killed at every step and run again, never undone.
func (h *movingWorkspace) killedAndRunAgain() {
	h.Helper()
	h.live(func() {
		h.appendMore(testkit.Scale(30, 100))
		for _, step := range moveSteps() {
			h.moveUntil(step).kill()
		}
		h.mustMove(0)
	})
	h.whole(1)
}

// overABadLink: over a link that is slow, breaks and goes silent, a move takes longer or ends
// with an error, appends come in again when the fence is over, and the move can be run again.
func (h *movingWorkspace) overABadLink() {
	h.Helper()
	link := h.overALink()
	link.Delay(time.Duration(testkit.Scale(5, 20)) * time.Millisecond)
	h.every = 10 * time.Millisecond
	h.live(func() {
		h.appendMore(testkit.Scale(30, 100))
		for _, step := range []string{"copy the log", "copy the newest entries"} {
			code, messages := h.moveWith(h.Context(), step, func() {
				link.Refuse(true)
				link.Cut()
			}, "--fence", "1s")
			if link.Refuse(false); code == cli.ExitDone {
				h.Errorf("a move whose link broke at %q was over:\n%s", step, messages)
			}
		}
		// Silence from the moment in which appends are refused.
		ctx, interrupt := context.WithCancel(h.Context())
		silent, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			code, messages := h.moveWith(ctx, "copy the newest entries", func() {
				link.Partition()
				close(silent)
			}, "--fence", "1s")
			if code == cli.ExitDone {
				h.Errorf("a move whose link went silent was over:\n%s", messages)
			}
		}()
		select {
		case <-silent:
		case <-ended:
		}
		h.appendMore(20) // the fence is over
		interrupt()
		link.Restore()
		<-ended
		h.mustMove(0)
	})
	h.whole(1)
}

// overALink makes moves reach the second place through a proxy.
func (h *movingWorkspace) overALink() *badnetwork.Proxy {
	h.Helper()
	link, to := testkit.Link(h.T, h.urls[1])
	h.to = to
	return link
}
