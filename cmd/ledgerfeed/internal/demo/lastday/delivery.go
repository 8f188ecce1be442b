package lastday

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

const (
	// maxEvents bounds the events that are sent to each webhook.
	maxEvents = 1000

	// The webhook that is off was turned off offFor ago, after failingFor.
	offFor     = 5 * time.Hour
	failingFor = 72 * time.Hour
)

type event struct {
	Position  int64
	ID, Type  string
	CreatedAt time.Time
}

func made(at time.Time, outcome attempt.Outcome, status int, text string, took time.Duration) attempt.Result {
	r := attempt.Result{At: at, Duration: took, Status: status, Outcome: outcome}
	if r.Success() {
		r.Answer = text
	} else {
		r.Error = text
	}
	return r
}

// deliveries makes up deliveries of the events that the log has of the last day.
func (m *Maker) deliveries(ctx context.Context, w Webhooks) error {
	rollups := rollup.NewWriter(m.Pool, m.Logger)
	now := m.Clock().UTC()
	err := pg.InTx(ctx, m.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT webhook_delivery_days($1, $2)`, now, now.AddDate(0, 0, -31)); err != nil {
			return fmt.Errorf("cannot make the tables of the last day: %w", err)
		}
		for _, one := range []*webhook{
			{id: w.Well, from: now.Add(-length), to: now, history: m.well()},
			{id: w.Failing, from: now.Add(-length), to: now, history: m.failing(now)},
			{id: w.Off, from: now.Add(-offFor - failingFor), to: now.Add(-offFor), history: m.off(now)},
		} {
			if err := m.deliver(ctx, tx, one, rollups); err != nil {
				return fmt.Errorf("cannot make up deliveries: %w", err)
			}
		}
		_, err := tx.Exec(ctx, `
			UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1, failing_since = $3, turned_off_at = $4, turned_off_for = $5
			 WHERE workspace_id = $1 AND webhook_id = $2`, m.WorkspaceID, w.Off, now.Add(-offFor-failingFor), now.Add(-offFor), noName)
		if err != nil {
			return fmt.Errorf("cannot turn a webhook off: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return rollups.Write(ctx)
}

// webhook is one to make up deliveries to.
type webhook struct {
	id       string
	from, to time.Time // of the events
	history  func(*event) history
}

// history is what became of an event.
type history struct {
	state string
	tried []attempt.Result
	next  time.Time // of a pending delivery
}

// noName is why attempts to the webhook that is off have failed.
const noName = "the name did not resolve"

// well answers all but a few at the first attempt.
func (*Maker) well() func(*event) history {
	r := random(2)
	return func(e *event) history {
		at, took := e.CreatedAt.Add(300*time.Millisecond), time.Duration(30+r.IntN(90))*time.Millisecond
		if r.IntN(25) != 0 {
			return history{state: "succeeded", tried: []attempt.Result{made(at, attempt.OutcomeSuccess, 200, "ok", took)}}
		}
		return history{state: "succeeded", tried: []attempt.Result{
			made(at, attempt.OutcomeTimeout, 0, "no answer within 10s", 10*time.Second),
			made(at.Add(70*time.Second), attempt.OutcomeSuccess, 200, "ok", took),
		}}
	}
}

// failing refuses every connection, so that each event waits for its next attempt.
func (*Maker) failing(now time.Time) func(*event) history {
	schedule := policy.DefaultSchedule()
	return func(e *event) history {
		h := history{state: "pending", next: e.CreatedAt.Add(300 * time.Millisecond)}
		for i := 0; h.next.Before(now); i++ {
			h.tried = append(h.tried, made(h.next, attempt.OutcomeUnreachable, 0, "the connection was refused", time.Millisecond))
			if i == len(schedule) {
				return history{state: "failed", tried: h.tried}
			}
			h.next = h.next.Add(schedule[i])
		}
		return h
	}
}

// off had failed until it was turned off, which cancelled what was pending.
func (*Maker) off(now time.Time) func(*event) history {
	schedule := policy.DefaultSchedule()
	return func(e *event) history {
		h := history{state: "cancelled"}
		at := e.CreatedAt.Add(300 * time.Millisecond)
		for i := 0; at.Before(now.Add(-offFor)); i++ {
			h.tried = append(h.tried, made(at, attempt.OutcomeUnreachable, 0, noName, 4*time.Millisecond))
			if i == len(schedule) {
				h.state = "failed"
				break
			}
			at = at.Add(schedule[i])
		}
		return h
	}
}

func (m *Maker) deliver(ctx context.Context, tx pgx.Tx, w *webhook, rollups *rollup.Writer) error {
	rows, err := tx.Query(ctx, `
		SELECT e.position, e.id, e.type, e.created_at FROM event_log e
		  JOIN webhook w ON w.workspace_id = e.workspace_id AND w.webhook_id = $2 AND (w.events IS NULL OR e.type = ANY (w.events))
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL AND e.created_at >= $3 AND e.created_at < $4
		 ORDER BY e.position DESC LIMIT $5`, m.WorkspaceID, w.id, w.from, w.to, maxEvents)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	var sent, waiting [][]any
	var first time.Time
	for i := range events {
		e := &events[i]
		h := w.history(e)
		if len(h.tried) == 0 {
			continue
		}
		list := []byte("[")
		for i := range h.tried {
			t := &h.tried[i]
			if i > 0 {
				list = append(list, ',')
			}
			list = t.AppendJSON(list)
			rollups.AddAttempt(&rollup.Attempt{At: t.At, WorkspaceID: m.WorkspaceID, WebhookID: w.id, Outcome: string(t.Outcome), Duration: t.Duration})
		}
		list = append(list, ']')
		created := h.tried[0].At
		first = created // the events come newest first
		var next any
		if h.state == "pending" {
			next = h.next
			waiting = append(waiting, []any{m.WorkspaceID, w.id, e.Position, created, len(h.tried), h.next, 1})
		}
		sent = append(sent, []any{m.WorkspaceID, w.id, e.Position, created, e.ID, e.Type, h.state, next, list})
	}
	for _, into := range []struct {
		table   string
		columns []string
		rows    [][]any
	}{
		{"webhook_delivery", []string{"workspace_id", "webhook_id", "position", "created_at", "event_id", "event_type", "state", "next_attempt_at", "attempts"}, sent},
		{"webhook_waiting", []string{"workspace_id", "webhook_id", "position", "created_at", "attempts", "next_attempt_at", "epoch"}, waiting},
	} {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{into.table}, into.columns, pgx.CopyFromRows(into.rows)); err != nil {
			return fmt.Errorf("write %s: %w", into.table, err)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, `UPDATE webhook SET failing_since = $3 WHERE workspace_id = $1 AND webhook_id = $2`, m.WorkspaceID, w.id, first)
	if err != nil {
		return fmt.Errorf("say since when it fails: %w", err)
	}
	return nil
}
