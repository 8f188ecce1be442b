//go:build linux

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// follower follows a list or the events of a workspace by its cursor, at any of the
// processes.
type follower struct {
	*env

	key    string
	client *http.Client
	seen   *check.Follow

	cursor   string
	cursorAt time.Time // when the request was made that gave the cursor
}

// newFollowers makes followers of every list and of the events, with every permission set,
// over the workspaces in turn. Every list has some that are told of rows that leave.
func newFollowers(w *env) (list []*follower) {
	limits := []int{3, 17, 100}
	add := func(of string, sight check.Sight, removed bool) {
		n := len(list)
		workspace := w.workspaces[n%len(w.workspaces)]
		f := &follower{
			env: w, key: w.keys[workspace][sight], client: &http.Client{Timeout: followTimeout},
			seen: &check.Follow{Workspace: workspace, List: of, Sight: sight, Limit: limits[n%len(limits)], Removed: removed},
		}
		f.seen.Restart(time.Now())
		list = append(list, f)
	}
	for _, sight := range sights() {
		for range 2 {
			add(check.ListEvents, sight, false)
		}
		for _, of := range check.Lists() {
			add(of, sight, false)
			if of == "charges" || of == "time-entries" || !sight.Pay {
				add(of, sight, true)
			}
		}
	}
	return list
}

const (
	followTimeout = 5 * time.Second
	followEvery   = 250 * time.Millisecond
	followEnd     = 90 * time.Second
)

// run polls until ctx ends, and then to the end of the list.
func (f *follower) run(ctx context.Context, rng *rand.Rand) {
	lasting := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		more, err := f.poll(lasting, rng)
		if err != nil || !more {
			flow.Sleep(ctx, followEvery/2+time.Duration(rng.Int64N(int64(followEvery))))
		}
	}
	deadline := time.Now().Add(followEnd)
	for {
		more, err := f.poll(lasting, rng)
		if err == nil && !more {
			return
		}
		if time.Now().After(deadline) {
			f.findings.Add(f.rule(), "%s cannot read to the end: %v", f.seen.Name(), err)
			return
		}
	}
}

func (f *follower) rule() string {
	if f.seen.List == check.ListEvents {
		return check.RuleEvents
	}
	return check.RuleRows
}

// poll reads one page.
func (f *follower) poll(ctx context.Context, rng *rand.Rand) (more bool, err error) {
	err = f.gate.pass(ctx, 2*followTimeout, func(ctx context.Context) error {
		processes := f.cluster.Processes
		more, err = f.page(ctx, processes[rng.IntN(len(processes))].API)
		return err
	})
	return more, err
}

func (f *follower) page(ctx context.Context, api string) (more bool, err error) {
	query := url.Values{"limit": {strconv.Itoa(f.seen.Limit)}}
	if f.seen.Removed {
		query.Set("include", "removed")
	}
	if f.cursor != "" {
		query.Set("cursor", f.cursor)
	}
	at := time.Now()
	status, body, err := get(ctx, f.client, api+"/v1/"+f.seen.List+"?"+query.Encode(), f.key)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusBadRequest:
		f.told(body)
		return true, nil
	case status != http.StatusOK:
		return false, fmt.Errorf("answered %d: %s", status, body)
	}
	var page struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    bool              `json:"has_more"`
		NextCursor string            `json:"next_cursor"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return false, fmt.Errorf("answered with no page: %w", err)
	}
	var ids []string
	for _, row := range page.Data {
		var of struct {
			ID      string
			Removed bool
		}
		if err := json.Unmarshal(row, &of); err != nil {
			return false, fmt.Errorf("answered with no row: %w", err)
		}
		ids = append(ids, of.ID)
		switch {
		case f.seen.List == check.ListEvents:
			f.seen.Events = append(f.seen.Events, check.Seen{ID: of.ID, JSON: string(row)})
		case of.Removed:
			delete(f.seen.Rows, of.ID)
		default:
			f.seen.Rows[of.ID] = string(row)
		}
	}
	f.seen.Pages++
	f.cursor, f.cursorAt = page.NextCursor, at
	if f.seen.List == check.ListEvents && len(ids) > 0 {
		f.checkVisible(ctx, f.seen.Workspace, ids, f.seen.Name())
	}
	return page.HasMore, nil
}

// told starts the feed again where the program says that the cursor is of another log.
func (f *follower) told(body []byte) {
	if !f.history.LostSince(f.cursorAt) {
		f.findings.Add(f.rule(), "%s: the cursor is refused though the log has not become an older one: %s", f.seen.Name(), body)
	}
	f.seen.Told++
	f.seen.Restart(time.Now())
	f.cursor = ""
}

// checkVisible checks that events which were shown lie below the visible position.
// The answer is later than the events, so it can only be too kind.
func (w *env) checkVisible(ctx context.Context, workspace string, ids []string, who string) {
	var above, visible int64
	err := w.cluster.Primary().With(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT coalesce(max(e.position), 0), c.position
			  FROM log_checkpoint c LEFT JOIN event_log e ON e.workspace_id = c.workspace_id AND e.id = ANY ($2) AND e.position > c.position
			 WHERE c.workspace_id = $1 AND c.consumer = 'read_models' GROUP BY c.position`, workspace, ids).Scan(&above, &visible)
	})
	if err == nil && above > 0 {
		w.findings.Add(check.RuleVisible, "%s got the event at position %d while the read models stood at %d", who, above, visible)
	}
}
