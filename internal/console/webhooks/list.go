// Package webhooks has the pages of webhooks and of what was delivered to them.
package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Pages are the pages of webhooks.
type Pages struct {
	Pool        *pgxpool.Pool
	Store       *delivery.Store
	Settings    policy.Settings // those of Store
	TestTimeout time.Duration   // how long "Send test" waits for the receiver's answer
}

// row is a webhook as the pages show it.
type row struct {
	delivery.Webhook
	Look      string // on, failing, paused or off
	Succeeded int64  // attempts in the last 24 hours
	Failed    int64
	Backlog   *delivery.Backlog // in the list and on its page; nil: it is not paused
	Spark     *chart.Spark      // attempts of the last 24 hours, in the list; nil: there were none
}

func newRow(w *delivery.Webhook) row {
	r := row{Webhook: *w, Look: w.State}
	switch {
	case w.Paused():
		r.Look = "paused"
	case w.On() && !w.FailingSince.IsZero():
		r.Look = "failing"
	}
	for outcome, n := range w.Last24Hours {
		if outcome == attempt.OutcomeSuccess {
			r.Succeeded += n
		} else {
			r.Failed += n
		}
	}
	return r
}

// Title is the webhook's name; without one, host and path.
func (r row) Title() string { return cmp.Or(r.Name, r.Label()) }

// All tells whether the webhook gets every type.
func (r row) All() bool { return slices.Contains(r.Events, delivery.AllEvents) }

// EventsLabel describes the events that the webhook gets.
func (r row) EventsLabel() string {
	if r.All() {
		return "All events"
	}
	return label.Plural(len(r.Events), "event type", "event types")
}

// SuccessRate is the share of the attempts of the last 24 hours that succeeded, rounded
// down to a tenth of a per cent, so that 100 % means all of them.
func (r row) SuccessRate() string {
	permille := r.Succeeded * 1000 / max(r.Succeeded+r.Failed, 1)
	if permille%10 == 0 {
		return fmt.Sprintf("%d %%", permille/10)
	}
	return fmt.Sprintf("%d.%d %%", permille/10, permille%10)
}

// NoticeParts splits the webhook's notice, so that the moments in it can be shown
// in the reader's zone; empty without a notice.
func (r row) NoticeParts() []label.Part {
	if r.Notice == nil {
		return nil
	}
	return label.Moments(*r.Notice)
}

// find returns a webhook of the session's workspace.
func (p *Pages) find(r *web.Request, id string) (*delivery.Webhook, error) {
	w, err := p.Store.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if w.WorkspaceID != r.Session.WorkspaceID {
		return nil, &delivery.UnknownWebhookError{WebhookID: id}
	}
	return w, nil
}

// listBody is what the list of webhooks is made from.
type listBody struct {
	List  []row
	Max   int
	Told  bool         // somebody gets mail when a webhook fails
	Chart *chart.Chart // of all of them together; nil without any
}

func (p *Pages) listPage(r *web.Request) error {
	list, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	body := listBody{Max: delivery.MaxWebhooks}
	for i := range list {
		row := newRow(&list[i])
		if row.Backlog, err = list[i].Backlog(r.Context(), p.Store); err != nil {
			return err
		}
		bars, err := attempts(r.Context(), p.Pool, r.Session.WorkspaceID, row.ID, r.Now)
		if err != nil {
			return err
		}
		row.Spark = chart.NewSpark("spark-"+row.ID, "Attempts by hour in the last 24 hours", "attempts", bars, attemptSeries())
		body.List = append(body.List, row)
	}
	if len(list) > 0 {
		if body.Chart, err = p.attemptsChart(r.Context(), r.Session.WorkspaceID, "", r.Now); err != nil {
			return err
		}
	}
	if body.Told, err = told(r.Context(), p.Pool, r.Session.WorkspaceID); err != nil {
		return err
	}
	return r.Show("webhooks", web.View{Title: "Webhooks", Section: "webhooks", Body: body})
}

// told tells whether the workspace has an address for mail about its webhooks.
func told(ctx context.Context, pool *pgxpool.Pool, workspaceID string) (told bool, err error) {
	err = pool.QueryRow(ctx, `SELECT coalesce(notify_email, '') <> '' FROM workspace WHERE workspace_id = $1`, workspaceID).Scan(&told)
	if err != nil {
		return false, fmt.Errorf("cannot look for the workspace's addresses: %w", err)
	}
	return told, nil
}

// attemptsChart draws the attempts of the last 24 hours by hour; those of one
// webhook, or with an empty id of all.
func (p *Pages) attemptsChart(ctx context.Context, workspaceID, webhookID string, now time.Time) (*chart.Chart, error) {
	bars, err := attempts(ctx, p.Pool, workspaceID, webhookID, now)
	if err != nil {
		return nil, err
	}
	return chart.New("deliveries", "Attempts in the last 24 hours", "attempts", bars, attemptSeries()), nil
}

func attemptSeries() []chart.Series {
	return []chart.Series{{Name: "Succeeded", Look: chart.Good}, {Name: "Failed", Look: chart.Bad}}
}

// attempts counts those of attemptsChart.
func attempts(ctx context.Context, pool *pgxpool.Pool, workspaceID, webhookID string, now time.Time) ([]chart.Bar, error) {
	const succeeded, failed = 0, 1
	bars := chart.Empty(now.Truncate(time.Hour).Add(-23*time.Hour), time.Hour, 24, 2)
	rows, err := pool.Query(ctx, `
		SELECT at, outcome = 'success', sum(attempts)::bigint FROM attempt_rollup
		 WHERE workspace_id = $1 AND step = 60 AND at >= $3 AND ($2 = '' OR webhook_id = $2)
		 GROUP BY 1, 2`, workspaceID, webhookID, bars[0].At)
	if err != nil {
		return nil, fmt.Errorf("cannot count attempts: %w", err)
	}
	var (
		hour    time.Time
		success bool
		n       int64
	)
	_, err = pgx.ForEachRow(rows, []any{&hour, &success, &n}, func() error {
		kind := failed
		if success {
			kind = succeeded
		}
		chart.Add(bars, hour, time.Hour, kind, n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count attempts: %w", err)
	}
	return bars, nil
}
