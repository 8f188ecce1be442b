package lastday

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// requests makes up requests as a nightly report, a payroll run and people who try things
// send them: few at night, and a burst now and then that its key's limit stops.
func (m *Maker) requests(ctx context.Context, keys [2]Key) error {
	rows, err := m.Pool.Query(ctx, `SELECT id FROM invoice WHERE workspace_id = $1 AND shown ORDER BY position DESC LIMIT 20`, m.WorkspaceID)
	if err != nil {
		return fmt.Errorf("cannot read invoices: %w", err)
	}
	invoices, err := pgx.CollectRows(rows, pgx.RowTo[string])
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
