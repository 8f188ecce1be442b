// Package overview has the first page of the console: what needs attention, what
// happened today, and charts of the last hour up to the last 30 days.
package overview

import (
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
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

	// BesideTimeout bounds the look for what needs attention: every page shows a mark, and
	// is about something else.
	BesideTimeout time.Duration
}

// Routes are the addresses of the page.
func (p *Pages) Routes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Pattern: "/", Access: web.SignedIn, Handle: p.page}}
}

// body is what the page is made from.
type body struct {
	*state
	*charts
	Switch []chart.Link // to the other times that the charts can show
}

func (p *Pages) page(r *web.Request) error {
	chosen := chart.Choose(r.Query("range"), "day")
	b := &body{Switch: chosen.Switch(func(name string) string { return "/?range=" + name + "#charts" })}
	var err error
	if b.state, err = p.state(r); err != nil {
		return err
	}
	if b.charts, err = p.charts(r, chosen, b.Webhooks); err != nil {
		return err
	}
	return r.Show("overview", web.View{Title: "Overview", Section: "overview", Body: b})
}
