package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// writer appends a client's name and reads it back, at random at one of the instances.
type writer struct {
	random    *rand.Rand
	append    func(ctx context.Context, line string) (int64, error)
	instances []string
	http      *http.Client
	keys      map[string]string // by workspace
	workspace string
	client    string // that nobody else writes

	read   int
	kinds  [2][readKinds]int // how often, at each instance
	tag    string            // of the client, as it was read last
	tagged int64             // the position that this was of
}

// once writes a name and reads it back.
func (w *writer) once(ctx context.Context, n int) error {
	name := fmt.Sprintf("name %d", n)
	position, err := w.append(ctx, fmt.Sprintf(`{"workspace_id":%q,"type":"client.recorded","data":{"client_id":%q,"name":%q}}`, w.workspace, w.client, name))
	if err != nil {
		return err
	}
	kinds := []int{w.random.IntN(readKinds)}
	if n < readKinds {
		kinds[0] = n // each kind once, whatever comes at random after that
	}
	if w.random.IntN(2) == 0 {
		kinds = append(kinds, w.random.IntN(readKinds))
	}
	for _, kind := range kinds {
		if err := w.reads(ctx, kind, name, position); err != nil {
			return err
		}
	}
	return nil
}

// The kinds of reads.
const (
	readAlone = iota
	readInList
	readWithTag // the one of before
	readKinds
)

// reads reads the client in one way, from at least a position.
func (w *writer) reads(ctx context.Context, kind int, name string, position int64) error {
	path, tag := "/v1/clients/"+w.client, ""
	switch kind {
	case readInList:
		path = "/v1/clients?limit=100"
	case readWithTag:
		tag = w.tag
	}
	instance := w.random.IntN(len(w.instances))
	w.kinds[instance][kind]++
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.instances[instance]+path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.keys[w.workspace])
	req.Header.Set("Log-Position-At-Least", strconv.FormatInt(position, 10))
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(resp.Header.Get("Log-Position"), 10, 64)
	if err != nil || at < position {
		return fmt.Errorf("%s from position %d: %d of position %q: %s", path, position, resp.StatusCode, resp.Header.Get("Log-Position"), body)
	}
	w.read++
	switch {
	case resp.StatusCode == http.StatusNotModified && tag != "" && at == w.tagged:
		return nil // as it was read before, of this very position
	case resp.StatusCode != http.StatusOK, !strings.Contains(string(body), fmt.Sprintf(`"id":%q,"name":%q`, w.client, name)):
		return fmt.Errorf("%s from position %d: %d of position %d without %q: %s", path, position, resp.StatusCode, at, name, body)
	}
	if path == "/v1/clients/"+w.client {
		w.tag, w.tagged = resp.Header.Get("Etag"), at
	}
	return nil
}

// TestReadYourWrites: producers in three workspaces read what they have just appended, by
// the Go API and by append --stream, from two instances of which one projects nothing. No
// answer is older than what was written, and none is an error. Followers that wait at both
// instances get every event, once and in order.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	const writers, rounds, marks = 9, 40, 30
	seed := uint64(1)
	if testkit.Full() {
		seed = rand.Uint64()
		t.Logf("seed %d", seed)
	}
	database := testkit.NewDatabase(t)
	workspaces := []string{"north", "south", "west"}
	keys := map[string]string{}
	for _, w := range workspaces {
		succeed(t, database, "workspace", "create", "--id", w, "--name", w)
		keys[w] = newReader(t, database, "", w, endpointScopes).key
	}
	projecting := startProcess(t, command(t, database, "serve", "--roles", "api,project", "--no-migrate"))
	reading := startProcess(t, command(t, database, "serve", "--roles", "api", "--no-migrate"))
	instances := []string{apiOf(projecting), apiOf(reading)}
	byAPI, byStream := appendByAPI(t, database), appendByStream(t, database)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	t.Cleanup(client.CloseIdleConnections)
	group, ctx := errgroup.WithContext(t.Context())
	all := make([]*writer, writers)
	for i := range writers {
		w := &writer{
			random: rand.New(rand.NewPCG(seed, uint64(i))), append: byAPI, instances: instances, http: client, keys: keys,
			workspace: workspaces[i%len(workspaces)], client: fmt.Sprintf("cl_%d", i),
		}
		if i == 0 {
			w.append = byStream
		}
		all[i] = w
		group.Go(func() error {
			for n := range rounds {
				if err := w.once(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, base := range instances {
		group.Go(func() error { return followMarks(ctx, client, base, keys["north"], marks) })
	}
	group.Go(func() error {
		for n := range marks {
			if _, err := byAPI(ctx, fmt.Sprintf(`{"workspace_id":"north","type":"invoice.reversed","data":{"invoice_id":"in_%d"}}`, n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, projecting.log, reading.log)
	}
	kinds := [2][readKinds]int{}
	for i, w := range all {
		if w.read < rounds {
			t.Errorf("writer %d has read %d times, want %d or more", i, w.read, rounds)
		}
		for instance := range kinds {
			for kind, n := range w.kinds[instance] {
				kinds[instance][kind] += n
			}
		}
	}
	for instance := range kinds {
		for kind, n := range kinds[instance] {
			if n == 0 {
				t.Errorf("nobody has read in way %d at instance %d: of all ways there were %v", kind, instance, kinds)
			}
		}
	}
}

// followMarks follows the events by requests that wait, until it has so many.
func followMarks(ctx context.Context, client *http.Client, base, key string, marks int) error {
	target, cursor := base+"/v1/events?type=invoice.reversed", ""
	for seen := 0; seen < marks; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+cursor, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Prefer", "wait=20")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		var page struct {
			Data []struct {
				Data struct {
					ObjectID string `json:"object_id"`
				}
			}
			NextCursor string `json:"next_cursor"`
		}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&page), resp.Body.Close())
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Preference-Applied") != "wait=20" {
			return fmt.Errorf("following: %d %v (%w)", resp.StatusCode, resp.Header, err)
		}
		for _, e := range page.Data {
			if want := fmt.Sprintf("in_%d", seen); e.Data.ObjectID != want {
				return fmt.Errorf("following: an event of %s, want %s", e.Data.ObjectID, want)
			}
			seen++
		}
		cursor = "&cursor=" + page.NextCursor
	}
	return nil
}

// TestStreamNotifiesAsItAppends: services that run are notified of each answered line, while
// the input is still open.
func TestStreamNotifiesAsItAppends(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	conn := testkit.Must(pgx.Connect(t.Context(), database))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	testkit.Must(conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{string(eventlog.TopicAppended)}.Sanitize()))(t)
	appendLine := appendByStream(t, database)
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range 2 {
		testkit.Must(appendLine(t.Context(), strings.TrimSpace(noEffect("w", fmt.Sprint("in_", n)))))(t)
		if _, err := conn.WaitForNotification(limit); err != nil {
			t.Fatalf("line %d was answered, and nobody was notified: %v", n, err)
		}
	}
}

// appendByAPI appends as a Go program does.
func appendByAPI(t *testing.T, database string) func(context.Context, string) (int64, error) {
	t.Helper()
	pool := testkit.Must(pg.Open(t.Context(), database, pg.Options{MaxConns: 4}))(t)
	t.Cleanup(pool.Close)
	notifier := eventlog.NewNotifier(pool, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- notifier.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Notify: notifier.Notify}))(t)
	return func(ctx context.Context, line string) (int64, error) {
		draft, err := domain.DecodeDraft([]byte(line))
		if err != nil {
			return 0, err
		}
		receipts, err := log.Append(ctx, draft)
		if err != nil {
			return 0, err
		}
		return receipts[0].Position, nil
	}
}

// appendByStream appends through append --stream, for one caller.
func appendByStream(t *testing.T, database string) func(context.Context, string) (int64, error) {
	t.Helper()
	c := command(t, database, "append", "--stream")
	in := testkit.Must(c.StdinPipe())(t)
	out := testkit.Must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewScanner(out)
	return func(_ context.Context, line string) (int64, error) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			return 0, err
		}
		if !answers.Scan() {
			return 0, fmt.Errorf("append --stream has ended: %w", answers.Err())
		}
		var answer struct{ Position int64 }
		err := json.Unmarshal(answers.Bytes(), &answer)
		return answer.Position, err
	}
}
