// This file makes up what happened in the last day of a demo: requests of its keys,
// and deliveries to webhooks that work, that fail and that were turned off. There is
// something to look at from the first minute on.

package demo

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// makeLastDay makes up the last day at the first start, with two more webhooks: one whose
// receiver refuses every connection, and one that was turned off. A demo that has more
// webhooks than its own is left as it is: somebody uses it, or an earlier start was
// interrupted.
func makeLastDay(ctx context.Context, env *operate.Env, deps *operate.Deps, s *saved, keys *access.Store, store *delivery.Store) error {
	if s.LastDay {
		return nil
	}
	list, err := store.List(ctx, workspaceID)
	if err != nil {
		return err
	}
	if len(list) > 1 {
		s.LastDay = true
		return s.save()
	}
	webhooks := Webhooks{Well: s.Webhook.ID}
	for _, w := range []struct {
		id *string
		delivery.Definition
	}{
		{&webhooks.Failing, delivery.Definition{
			Name: "Payroll", Description: "Fails, to show how that looks: nothing listens at this address.",
			URL: "https://127.0.0.1:1/payroll", Events: []string{"time_entry.approved", "payout.paid", "invoice.issued"}, Standard: true,
		}},
		{&webhooks.Off, delivery.Definition{
			Name: "Old automation", Description: "Was turned off, to show how that looks: there is no such name.",
			URL: "https://old-automation.harbour-lane.example/hooks/7f3a", Events: []string{"invoice.paid", "invoice.sent"}, Standard: true,
		}},
	} {
		made, err := store.Create(ctx, workspaceID, w.Definition)
		if err != nil {
			return err
		}
		*w.id = made.ID
	}
	var used [2]Key
	for i, id := range []string{s.Everything.ID, s.WithoutPay.ID} {
		k, err := keys.Get(ctx, workspaceID, id)
		if err != nil {
			return err
		}
		used[i] = Key{ID: id, Prefix: k.Prefix}
	}
	maker := Maker{Pool: deps.Pool, Clock: env.Clock, Logger: env.Logger, WorkspaceID: workspaceID}
	if err := maker.Make(ctx, used, webhooks); err != nil {
		return err
	}
	// A change of a user's tells the process that delivers to read the webhook again.
	name := "Payroll"
	if _, err := store.Edit(ctx, webhooks.Failing, delivery.Change{Name: &name}); err != nil {
		return err
	}
	s.LastDay = true
	return s.save()
}

// length is how much is made up.
const length = 24 * time.Hour

// Maker makes it up, the same for the same clock and database.
type Maker struct {
	Pool        pg.DB // as the owner of the tables
	Clock       func() time.Time
	Logger      *slog.Logger
	WorkspaceID string
}

// random is a source of its own for each subject, so that a change of one leaves the others
// as they are.
func random(subject uint64) *rand.Rand { return rand.New(rand.NewPCG(7, subject)) }

// Key is a key that has sent requests.
type Key struct{ ID, Prefix string }

// Webhooks are three, by how they have done. Each exists and is on.
type Webhooks struct {
	Well    string // answers
	Failing string // refuses every connection
	Off     string // is turned off here
}

// Make makes up the requests of two keys and the deliveries to the webhooks. It is called
// once.
func (m *Maker) Make(ctx context.Context, keys [2]Key, w Webhooks) error {
	if err := m.requests(ctx, keys); err != nil {
		return err
	}
	return m.deliveries(ctx, w)
}

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
	events, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[event], `
		SELECT e.position, e.id, e.type, e.created_at FROM event_log e
		  JOIN webhook w ON w.workspace_id = e.workspace_id AND w.webhook_id = $2 AND (w.events IS NULL OR e.type = ANY (w.events))
		 WHERE e.workspace_id = $1 AND e.public_event IS NOT NULL AND e.created_at >= $3 AND e.created_at < $4
		 ORDER BY e.position DESC LIMIT $5`, m.WorkspaceID, w.id, w.from, w.to, maxEvents)
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

// requests makes up requests as a nightly report, a payroll run and people who try things
// send them: few at night, and a burst now and then that its key's limit stops.
func (m *Maker) requests(ctx context.Context, keys [2]Key) error {
	invoices, err := pg.Collect(ctx, m.Pool, pgx.RowTo[string], `SELECT id FROM invoice WHERE workspace_id = $1 AND shown ORDER BY position DESC LIMIT 20`, m.WorkspaceID)
	if err != nil {
		return fmt.Errorf("cannot read invoices: %w", err)
	}
	store, err := requestlog.New(requestlog.Config{Pool: m.Pool, Clock: m.Clock, Logger: m.Logger})
	if err != nil {
		return err
	}
	r, now := random(1), m.Clock().UTC()
	for at := now.Add(-length); at.Before(now); at = at.Add(time.Minute) {
		busy := 1
		if hour := at.Hour(); hour >= 8 && hour < 18 {
			busy = 4
		}
		for range r.IntN(busy + 1) {
			store.Record(m.request(r, at.Add(time.Duration(r.IntN(60_000))*time.Millisecond), keys, invoices))
		}
		if r.IntN(400) == 0 {
			for range 20 + r.IntN(30) {
				store.Record(&requestlog.Record{At: at, WorkspaceID: m.WorkspaceID, KeyID: keys[1].ID, KeyPrefix: keys[1].Prefix, Method: "GET", Status: 429, Refusal: "rate_limit"})
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel() // it writes what waits, and returns
	return store.Run(ended)
}

func (m *Maker) request(r *rand.Rand, at time.Time, keys [2]Key, invoices []string) *requestlog.Record {
	who := r.IntN(2)
	q := &requestlog.Record{
		At: at, WorkspaceID: m.WorkspaceID, KeyID: keys[who].ID, KeyPrefix: keys[who].Prefix, Method: "GET", Status: 200,
		RequestID: "req_" + strings.ReplaceAll(uuid.Must(uuid.NewRandomFromReader(reader{r})).String(), "-", ""),
		Address:   netip.AddrFrom4([4]byte{198, 51, 100, byte(20 + who)}), UserAgent: [2]string{"harbour-reports/3.2", "python-requests/2.32.3"}[who],
		Duration: time.Duration(1500+r.IntN(9000)) * time.Microsecond,
	}
	switch n := r.IntN(100); {
	case n < 40:
		q.Route, q.Rows, q.Bytes = "/v1/events", r.IntN(12), 300+r.IntN(5000)
	case n < 65:
		q.Route, q.Rows, q.Bytes = "/v1/invoices", 50, 30_000+r.IntN(9000)
	case n < 75:
		q.Route, q.Rows, q.Bytes = "/v1/time-entries", 50, 18_000+r.IntN(4000)
	case n < 95 && len(invoices) > 0:
		id := invoices[r.IntN(len(invoices))]
		q.Route, q.Path, q.Rows, q.Bytes = "/v1/invoices/{id}", "/v1/invoices/"+id, 1, 900+r.IntN(400)
	case n < 97:
		q.Route, q.Path, q.Status, q.Bytes = "/v1/invoices/{id}", "/v1/invoices/inv_from_last_year", 404, 240
		q.Problem = problem(answer.UnknownID("invoice"))
	case n < 99:
		q.Route, q.Status, q.Bytes = "/v1/invoices", 400, 310
		q.Problem = problem(answer.WrongParams([]answer.ParamError{{Field: "limit", Message: "must be a whole number from 1 to 100"}}))
	default:
		q.Path, q.Status, q.Bytes = "/v1/invoice", 404, 240
		q.Problem = problem(answer.UnknownPath())
	}
	return q
}

// problem is what the API says with an error, as the request log keeps it.
func problem(e *answer.Error) *requestlog.Problem {
	p := &requestlog.Problem{Title: answer.Title(e.Status), Detail: e.Detail}
	for _, f := range e.Errors {
		p.Errors = append(p.Errors, requestlog.Fault{Field: f.Field, Message: f.Message})
	}
	return p
}

// reader reads random numbers as bytes.
type reader struct{ random *rand.Rand }

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.random.Uint32())
	}
	return len(p), nil
}
