package overview

import (
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// charts are the drawings of a range, and what is listed beside them.
type charts struct {
	RequestChart *chart.Chart
	APIChart     *chart.Chart
	AttemptChart *chart.Chart
	AnswerChart  *chart.Chart
	EventChart   *chart.Chart
	CauseChart   *chart.Chart
	APITimes     []times // by kind of request
	AnswerTimes  []times // by webhook
	Uses         []use
}

// times are within how many milliseconds half and 95 % of something ended.
type times struct {
	Name       string
	Half, Most int64
}

// use is what a key did.
type use struct {
	rollup.KeyUse
	Name  string
	Limit int // requests a minute
}

func (p *Pages) charts(r *web.Request, c chart.Choice, webhooks []delivery.Webhook) (*charts, error) {
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
		RequestChart: counted("requests", "Requests "+c.Title, "requests", in, requests, chart.RequestSeries(), chart.OfKind),
		AttemptChart: counted("attempts", "Delivery attempts "+c.Title, "attempts", in, attempts, attemptSeries(), attemptKind),
		EventChart:   counted("events", "Events "+c.Title, "events", in, events, []chart.Series{{Name: "Events", One: "event", Look: chart.Good}}, func(string) int { return 0 }),
		APIChart:     timed("api-time", "API response time "+c.Title, "requests", in, api),
		AnswerChart:  timed("answer-time", "Receiver response time "+c.Title, "attempts", in, answers),
		CauseChart:   causes("Failed attempts "+c.Title, in, attempts),
		APITimes:     timesOf(api, requestKinds()),
		AnswerTimes:  timesOf(answers, webhookKinds(webhooks)),
	}
	drawn.Uses, err = p.uses(r, in)
	return drawn, err
}

func attemptSeries() []chart.Series {
	return []chart.Series{{Name: "Succeeded", Look: chart.Good}, {Name: "Failed", Look: chart.Bad}}
}

func attemptKind(kind string) int {
	if kind == string(attempt.OutcomeSuccess) {
		return 0
	}
	return 1
}

// counted draws counts, each in the series of its kind.
func counted(id, title, unit string, in rollup.Range, counts []rollup.Count, series []chart.Series, of func(kind string) int) *chart.Chart {
	bars := chart.Empty(in.From, in.Width, in.Spans, len(series))
	for _, c := range counts {
		bars[c.Span].Counts[of(c.Kind)] += c.N
	}
	return chart.New(id, title, unit, bars, series).ByDay(in.Width > time.Hour)
}

// timed draws within how long half and 95 % of something ended.
func timed(id, title, unit string, in rollup.Range, l *rollup.Latencies) *chart.Chart {
	bars := chart.Empty(in.From, in.Width, in.Spans, 2)
	for i := range l.Spans {
		bars[i].Counts[0], bars[i].Counts[1] = quantiles(&l.Spans[i])
	}
	half, most := quantiles(&l.All)
	return chart.NewTimes(id, title, unit, bars, half, most).ByDay(in.Width > time.Hour)
}

// quantiles returns within how many milliseconds half and 95 % ended, rounded up.
func quantiles(l *rollup.Latency) (half, most int64) {
	up := func(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
	return up(l.Quantile(0.5)), up(l.Quantile(0.95))
}

// causes draws why attempts failed. Causes without an attempt have no series.
func causes(title string, in rollup.Range, attempts []rollup.Count) *chart.Chart {
	looks := map[attempt.Outcome]chart.Look{
		attempt.OutcomeAnswered: chart.Bad, attempt.OutcomeTimeout: chart.Wait, attempt.OutcomeUnreachable: chart.Quiet,
		attempt.OutcomeTLS: chart.Cross, attempt.OutcomeBlocked: chart.Back, attempt.OutcomeBroken: chart.Grey,
	}
	var series []chart.Series
	of := map[string]int{}
	for _, o := range attempt.Outcomes() {
		if looks[o] != "" && slices.ContainsFunc(attempts, func(c rollup.Count) bool { return c.Kind == string(o) }) {
			of[string(o)] = len(series)
			series = append(series, chart.Series{Name: label.Outcome(o), Look: looks[o]})
		}
	}
	failed := slices.DeleteFunc(slices.Clone(attempts), func(c rollup.Count) bool { _, known := of[c.Kind]; return !known })
	return counted("causes", title, "failed attempts", in, failed, series, func(kind string) int { return of[kind] })
}

// requestKinds are the kinds of requests that times are told for, with their names.
func requestKinds() []web.Pair {
	return []web.Pair{{Name: rollup.RouteList, Value: "Lists"}, {Name: rollup.RouteObject, Value: "One object"}, {Name: rollup.RouteEvents, Value: "Events"}, {Name: rollup.RouteOther, Value: "Other"}}
}

func webhookKinds(webhooks []delivery.Webhook) (kinds []web.Pair) {
	for i := range webhooks {
		kinds = append(kinds, web.Pair{Name: webhooks[i].ID, Value: webhooks[i].Label()})
	}
	return kinds
}

// timesOf are the times of kinds, where there are more than one that have any.
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

// uses are the keys that were used, with their names and limits.
func (p *Pages) uses(r *web.Request, in rollup.Range) ([]use, error) {
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
