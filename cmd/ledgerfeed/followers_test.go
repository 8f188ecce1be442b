package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// follower follows a list of a serving process by its cursor.
type follower struct {
	caller *caller
	path   string
	limit  int

	cursor  string
	rows    map[string]string // by id, as last shown
	inOrder []string
}

func (f *follower) poll() (more bool, err error) {
	target := fmt.Sprintf("%s?limit=%d", f.path, f.limit)
	if f.cursor != "" {
		target += "&cursor=" + f.cursor
	}
	a, err := f.caller.get(target, "")
	if err != nil {
		return false, err
	}
	if a.status != http.StatusOK {
		return false, fmt.Errorf("%s: %d %s", target, a.status, a.body)
	}
	var p page
	if err := json.Unmarshal(a.body, &p); err != nil {
		return false, fmt.Errorf("%s: %w", target, err)
	}
	for _, row := range p.Data {
		var r struct{ ID string }
		if err := json.Unmarshal(row, &r); err != nil {
			return false, fmt.Errorf("%s: %w", target, err)
		}
		f.rows[r.ID] = string(row)
		f.inOrder = append(f.inOrder, string(row))
	}
	f.cursor = p.NextCursor
	return p.HasMore, nil
}

// pollUntil polls until it is over, and then to the end of the list.
func (f *follower) pollUntil(over <-chan struct{}) error {
	for {
		more, err := f.poll()
		if err != nil {
			return err
		}
		select {
		case <-over:
			if !more {
				return nil
			}
		default:
		}
	}
}

// TestTwentyFollowers follows lists and events at different page sizes while
// thousands of entries are appended and projected by the program. In the end each
// follower has what a reader that starts from the beginning gets, which verify
// proves to be the fold.
func TestTwentyFollowers(t *testing.T) {
	t.Parallel()
	appends := testkit.Scale(3_000, 10_000)
	database := testkit.NewDatabase(t)
	succeed(t, database, "workspace", "create", "--id", "agency", "--name", "Agency")
	program := command(t, database, "serve", "--roles", "api,project", "--no-migrate")
	program.Env = append(program.Env, "LEDGERFEED_RETENTION=876000h") // the history grows older
	serving := startProcess(t, program)
	caller := newCaller(t, database, apiOf(serving), "agency")
	var followers []*follower
	for i, path := range slices.Repeat([]string{"/v1/events", "/v1/time-entries", "/v1/invoices", "/v1/charges", "/v1/payments"}, 4) {
		followers = append(followers, &follower{caller: caller, path: path, limit: []int{3, 17, 50, 100}[i/5], rows: map[string]string{}})
	}
	projected := make(chan struct{})
	var reading errgroup.Group
	for _, f := range followers {
		reading.Go(func() error { return f.pollUntil(projected) })
	}
	err := appendHistory(t.Context(), database, appends)
	succeed(t, database, "status", "--wait", "--timeout", "2m")
	close(projected)
	if err := errors.Join(err, reading.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, serving.log)
	}
	succeed(t, database, "verify")
	for _, f := range followers {
		fresh := &follower{caller: caller, path: f.path, limit: 100, rows: map[string]string{}}
		for more := true; more; {
			if more, err = fresh.poll(); err != nil {
				t.Fatal(err)
			}
		}
		if len(fresh.rows) < 40 {
			t.Errorf("%s has %d rows: the test tests little", f.path, len(fresh.rows))
		}
		if f.path == "/v1/events" && !slices.Equal(f.inOrder, fresh.inOrder) {
			t.Errorf("events by %d: %d seen, want %d, each once and in order", f.limit, len(f.inOrder), len(fresh.inOrder))
		}
		maps.DeleteFunc(f.rows, func(id, _ string) bool { _, there := fresh.rows[id]; return !there }) // deleted since
		if !maps.Equal(f.rows, fresh.rows) {
			t.Errorf("%s by %d: not every row was seen in its newest state", f.path, f.limit)
		}
	}
}

// appendHistory appends the entries of an agency of five weeks, in batches of 1 to
// 40. They hold the beginning of a month, when most is invoiced and paid.
func appendHistory(ctx context.Context, database string, entries int) error {
	log, closeLog, err := openLog(ctx, database)
	if err != nil {
		return err
	}
	defer closeLog()
	end := time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	g := scenario.New(scenario.Config{
		WorkspaceID: "agency", Seed: 7, Start: end.AddDate(0, 0, -35), End: end, Entries: entries, Clients: 120, Contractors: 40,
	})
	for size := 1; ; size = size%40 + 1 {
		var batch []domain.Draft
		for len(batch) < size {
			line, ok := g.Next()
			if !ok {
				break
			}
			d, err := domain.DecodeDraft(line.AppendNDJSON(nil))
			if err != nil {
				return err
			}
			batch = append(batch, d)
		}
		if len(batch) == 0 {
			return nil
		}
		if _, err := log.Append(ctx, batch...); err != nil {
			return err
		}
	}
}

// openLog opens the log of a database beside the program that serves it.
func openLog(ctx context.Context, database string) (*eventlog.Log, func(), error) {
	pool, err := pg.Open(ctx, database, pg.Options{MaxConns: 2})
	if err != nil {
		return nil, nil, err
	}
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	return log, pool.Close, err
}
