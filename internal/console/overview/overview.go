// Package overview has the first page of the console: what needs attention, what
// happened today, and charts of the last hour up to the last 30 days.
package overview

import (
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Pages are the page of the overview.
type Pages struct {
	Pool     *pgxpool.Pool
	Webhooks *delivery.Store
	Keys     *access.Store
	Counts   *rollup.Reader

	Workspaces *eventlog.Workspaces
	Mail       bool // the service sends mail
}

// Routes are the addresses of the page.
func (p *Pages) Routes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Pattern: "/", Access: web.SignedIn, Handle: p.page}}
}

// choice is a time that the charts can show.
type choice struct {
	Name  string // in the address
	Label string
	Title string // in titles of charts
	Width time.Duration
	Spans int
}

// choices are the times to choose from; the second is the default.
func choices() []choice {
	const day = 24 * time.Hour
	return []choice{
		{"hour", "1 hour", "in the last hour, by minute", time.Minute, 60},
		{"day", "24 hours", "in the last 24 hours, by hour", time.Hour, 24},
		{"week", "7 days", "in the last 7 days, by 6 hours", 6 * time.Hour, 28},
		{"month", "30 days", "in the last 30 days, by day", day, 30},
	}
}

// body is what the page is made from.
type body struct {
	*state
	*charts
	Choices []choice
	Range   choice
}

func (p *Pages) page(r *web.Request) error {
	b := &body{Choices: choices(), Range: choices()[1]}
	for _, c := range b.Choices {
		if c.Name == r.Query("range") {
			b.Range = c
		}
	}
	var err error
	if b.state, err = p.state(r); err != nil {
		return err
	}
	if b.charts, err = p.charts(r, b.Range); err != nil {
		return err
	}
	return r.Show("overview", web.View{Title: "Overview", Section: "overview", Body: b})
}
