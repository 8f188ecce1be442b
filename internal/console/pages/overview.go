package pages

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Overview serves the first page of the console: what needs attention, what happened today, and
// charts of the last hour up to the last 30 days.
type Overview struct {
	Pool     pg.DB
	Webhooks *delivery.Store
	Keys     *access.Store
	Counts   *rollup.Reader

	Workspaces *eventlog.Workspaces
	Mail       bool // the service sends mail

	// BesideTimeout is how long NeedsAttention may take: every page shows its mark, but is about
	// something else.
	BesideTimeout time.Duration
}

// Routes returns the routes of the page.
func (p *Overview) Routes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Pattern: "/", Access: web.SignedIn, Handle: p.page}}
}

// body is the template data of the page.
type body struct {
	*state
	*charts
	Switch []web.Link // to other time ranges of the charts
}

func (p *Overview) page(r *web.Request) error {
	chosen := web.Choose(r.Query("range"), "day")
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

const (
	// soon is how long before it expires a key is shown as about to expire.
	soon = 14 * 24 * time.Hour
	// mostKeys is how many keys are listed as about to expire, and how many are shown with their
	// use.
	mostKeys = 10
	// mostLostOfEach is how many failed deliveries of each webhook are examined. The webhook's page
	// counts more.
	mostLostOfEach = 50
	// late is how far the data may be behind before the page says so.
	late = time.Minute
)

// state is the current state of a workspace.
type state struct {
	Webhooks    []delivery.Webhook
	On          int
	Failing     int
	Paused      int
	Off         int
	Mail        bool                         // the service sends mail
	Told        int                          // addresses that get mail about webhooks
	Backlogs    map[string]*delivery.Backlog // of paused webhooks, by id
	Lost        map[string]*delivery.Lost    // what webhooks that work never got, by id
	Expiring    []expiringKey
	Requests    int64 // since midnight, UTC
	Errors      int64 // those of Requests with a status of 400 or above
	Refused     int64
	Events      int64
	Behind      int64 // entries that are not projected yet
	Waiting     time.Duration
	Quarantined bool // projection stopped before an entry that fails
	Unused      bool // nobody has made a key or a webhook: what to do first is shown
}

// Troubled returns the webhooks that are failing, paused or off.
func (s *state) Troubled() (list []delivery.Webhook) {
	for i := range s.Webhooks {
		if w := &s.Webhooks[i]; !w.On() || w.Paused() || !w.FailingSince.IsZero() {
			list = append(list, *w)
		}
	}
	return list
}

// Late reports whether the data is further behind than usual.
func (s *state) Late() bool { return s.Waiting >= late }

// expiringKey is a key that is about to expire.
type expiringKey struct {
	ID, Name  string
	ExpiresAt time.Time
}

func (p *Overview) state(r *web.Request) (*state, error) {
	ctx, workspaceID := r.Context(), r.Session.WorkspaceID
	s := &state{Mail: p.Mail, Backlogs: map[string]*delivery.Backlog{}, Lost: map[string]*delivery.Lost{}}
	workspace, err := p.Workspaces.Get(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if workspace.NotifyEmail != "" {
		s.Told = strings.Count(workspace.NotifyEmail, ",") + 1
	}
	if s.Webhooks, err = p.Webhooks.List(ctx, workspaceID); err != nil {
		return nil, err
	}
	for i := range s.Webhooks {
		switch w := &s.Webhooks[i]; {
		case !w.On():
			s.Off++
		case w.Paused():
			s.Paused++
			if s.Backlogs[w.ID], err = w.Backlog(ctx, p.Webhooks); err != nil {
				return nil, err
			}
		case !w.FailingSince.IsZero():
			s.Failing++
		default:
			s.On++
			lost, err := w.Lost(ctx, p.Webhooks, mostLostOfEach)
			if err != nil {
				return nil, err
			}
			if lost != nil {
				s.Lost[w.ID] = lost
			}
		}
	}
	if s.Expiring, err = p.expiring(ctx, workspaceID, r.Now); err != nil {
		return nil, err
	}
	if len(s.Webhooks) == 0 {
		if err := p.Pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM api_key WHERE workspace_id = $1)`, workspaceID).Scan(&s.Unused); err != nil {
			return nil, fmt.Errorf("cannot look for keys: %w", err)
		}
	}
	if err := p.countToday(ctx, workspaceID, r.Now, s); err != nil {
		return nil, err
	}
	progress, err := eventlog.ReadProgress(ctx, p.Pool, eventlog.ReadModels, workspaceID)
	if err != nil {
		return nil, err
	}
	for i := range progress {
		s.Behind, s.Waiting, s.Quarantined = progress[i].Head-progress[i].Position, progress[i].Waiting, progress[i].Quarantined
	}
	return s, nil
}

func (p *Overview) countToday(ctx context.Context, workspaceID string, now time.Time, s *state) error {
	today := rollup.Last(now, 24*time.Hour, 1)
	requests, err := p.Counts.Requests(ctx, workspaceID, today)
	if err != nil {
		return err
	}
	for _, c := range requests {
		switch c.Kind {
		case rollup.KindRefused:
			s.Refused += c.N
			continue
		case rollup.KindClientError, rollup.KindServerError:
			s.Errors += c.N
		}
		s.Requests += c.N
	}
	events, err := p.Counts.Events(ctx, workspaceID, today)
	if err != nil {
		return err
	}
	for _, c := range events {
		s.Events += c.N
	}
	return nil
}

// expiring returns the keys that expire soon, the soonest first.
func (p *Overview) expiring(ctx context.Context, workspaceID string, now time.Time) ([]expiringKey, error) {
	list, err := pg.Collect(ctx, p.Pool, pgx.RowToStructByPos[expiringKey], `
		SELECT key_id, name, expires_at FROM api_key
		 WHERE workspace_id = $1 AND revoked_at IS NULL AND expires_at > $2 AND expires_at <= $3 ORDER BY expires_at, key_id LIMIT $4`, workspaceID, now, now.Add(soon), mostKeys)
	if err != nil {
		return nil, fmt.Errorf("cannot look for keys that expire: %w", err)
	}
	return list, nil
}

// NeedsAttention reports whether a webhook is failing, paused or off, a key expires soon, or
// projection stopped before an entry that fails, and whether the last is so. It reads few rows,
// because the menu of every page needs it.
func (p *Overview) NeedsAttention(ctx context.Context, s *session.Session, now time.Time) (needed, stopped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.BesideTimeout)
	defer cancel()
	err = p.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM webhook WHERE workspace_id = $1 AND (state <> 'on' OR failing_since IS NOT NULL))
		    OR EXISTS (SELECT FROM api_key WHERE workspace_id = $1 AND revoked_at IS NULL AND expires_at > $2 AND expires_at <= $3),
		       EXISTS (SELECT FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $4 AND quarantined)`,
		s.WorkspaceID, now, now.Add(soon), eventlog.ReadModels).Scan(&needed, &stopped)
	if err != nil {
		return false, false, fmt.Errorf("cannot look what needs attention: %w", err)
	}
	return needed || stopped, stopped, nil
}

// charts holds the charts of a time range, and the lists next to them.
type charts struct {
	RequestChart *web.Chart
	APIChart     *web.Chart
	AttemptChart *web.Chart
	AnswerChart  *web.Chart
	EventChart   *web.Chart
	CauseChart   *web.Chart
	APITimes     []times // by kind of request
	AnswerTimes  []times // by webhook
	Uses         []use
}

// times holds a median and a 95th percentile, in milliseconds.
type times struct {
	Name       string
	Half, Most int64
}

// use is how much a key was used.
type use struct {
	rollup.KeyUse
	Name  string
	Limit int // requests a minute
}

func (p *Overview) charts(r *web.Request, c web.Choice, webhooks []delivery.Webhook) (*charts, error) {
	ctx, workspaceID, in := r.Context(), r.Session.WorkspaceID, rollup.Last(r.Now, c.Width, c.Spans)
	requests, err := p.Counts.Requests(ctx, workspaceID, in)
	if err != nil {
		return nil, err
	}
	attempts, err := p.Counts.Attempts(ctx, workspaceID, in)
	if err != nil {
		return nil, err
	}
	events, err := p.Counts.Events(ctx, workspaceID, in)
	if err != nil {
		return nil, err
	}
	api, err := p.Counts.RequestLatency(ctx, workspaceID, in)
	if err != nil {
		return nil, err
	}
	answers, err := p.Counts.AnswerLatency(ctx, workspaceID, in)
	if err != nil {
		return nil, err
	}
	drawn := &charts{
		RequestChart: counted("requests", "Requests "+c.Title, "requests", in, requests, web.RequestSeries(), web.OfKind),
		AttemptChart: counted("attempts", "Delivery attempts "+c.Title, "attempts", in, attempts, web.AttemptSeries(), attemptKind),
		EventChart:   counted("events", "Events "+c.Title, "events", in, events, []web.Series{{Name: "Events", One: "event", Look: web.Good}}, func(string) int { return 0 }),
		APIChart:     timed("api-time", "API response time "+c.Title, "requests", in, api),
		AnswerChart:  timed("answer-time", "Receiver response time "+c.Title, "attempts", in, answers),
		CauseChart:   causes("Failed attempts "+c.Title, in, attempts),
		APITimes:     timesOf(api, requestKinds()),
		AnswerTimes:  timesOf(answers, webhookKinds(webhooks)),
	}
	drawn.Uses, err = p.uses(r, in)
	return drawn, err
}

func attemptKind(kind string) int {
	if kind == string(attempt.OutcomeSuccess) {
		return web.AttemptSucceeded
	}
	return web.AttemptFailed
}

// counted draws counts, each in the series of its kind.
func counted(id, title, unit string, in rollup.Range, counts []rollup.Count, series []web.Series, of func(kind string) int) *web.Chart {
	bars := web.Empty(in.From, in.Width, in.Spans, len(series))
	for _, c := range counts {
		bars[c.Span].Counts[of(c.Kind)] += c.N
	}
	return web.New(id, title, unit, bars, series).ByDay(in.Width > time.Hour)
}

// timed draws medians and 95th percentiles of durations.
func timed(id, title, unit string, in rollup.Range, l *rollup.Latencies) *web.Chart {
	bars := web.Empty(in.From, in.Width, in.Spans, 2)
	for i := range l.Spans {
		bars[i].Counts[0], bars[i].Counts[1] = quantiles(&l.Spans[i])
	}
	half, most := quantiles(&l.All)
	return web.NewTimes(id, title, unit, bars, half, most).ByDay(in.Width > time.Hour)
}

// quantiles returns the median and the 95th percentile in milliseconds, rounded up.
func quantiles(l *rollup.Latency) (half, most int64) {
	up := func(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
	return up(l.Quantile(0.5)), up(l.Quantile(0.95))
}

// causes draws why attempts failed. Causes without an attempt have no series.
func causes(title string, in rollup.Range, attempts []rollup.Count) *web.Chart {
	looks := map[attempt.Outcome]web.Look{
		attempt.OutcomeAnswered: web.Bad, attempt.OutcomeTimeout: web.Dots, attempt.OutcomeUnreachable: web.Stripes,
		attempt.OutcomeTLS: web.Cross, attempt.OutcomeBlocked: web.Back, attempt.OutcomeBroken: web.Level,
	}
	var series []web.Series
	of := map[string]int{}
	for _, o := range attempt.Outcomes() {
		if looks[o] != "" && slices.ContainsFunc(attempts, func(c rollup.Count) bool { return c.Kind == string(o) }) {
			of[string(o)] = len(series)
			series = append(series, web.Series{Name: web.Outcome(o), Look: looks[o]})
		}
	}
	failed := slices.DeleteFunc(slices.Clone(attempts), func(c rollup.Count) bool { _, known := of[c.Kind]; return !known })
	return counted("causes", title, "failed attempts", in, failed, series, func(kind string) int { return of[kind] })
}

// requestKinds returns the kinds of requests whose times are shown, with their names.
func requestKinds() []web.Pair {
	return []web.Pair{{Name: rollup.RouteList, Value: "Lists"}, {Name: rollup.RouteObject, Value: "One object"}, {Name: rollup.RouteEvents, Value: "Events"}, {Name: rollup.RouteOther, Value: "Other"}}
}

func webhookKinds(webhooks []delivery.Webhook) (kinds []web.Pair) {
	for i := range webhooks {
		kinds = append(kinds, web.Pair{Name: webhooks[i].ID, Value: webhooks[i].Label()})
	}
	return kinds
}

// timesOf returns the times of those kinds that have any; nil if fewer than two have.
func timesOf(l *rollup.Latencies, kinds []web.Pair) (list []times) {
	for _, k := range kinds {
		if of := l.Kinds[k.Name]; of != nil {
			half, most := quantiles(of)
			list = append(list, times{k.Value, half, most})
		}
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// uses returns the keys that were used, with their names and limits.
func (p *Overview) uses(r *web.Request, in rollup.Range) ([]use, error) {
	used, err := p.Counts.Keys(r.Context(), r.Session.WorkspaceID, in, mostKeys)
	if err != nil || len(used) == 0 {
		return nil, err
	}
	records, err := p.Keys.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	var list []use
	for _, u := range used {
		for _, k := range records {
			if k.ID == u.KeyID {
				list = append(list, use{u, k.Name, k.RateLimit})
			}
		}
	}
	return list, nil
}
