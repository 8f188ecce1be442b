package requests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// maxCounted is how many rows are counted for a chart at most, the newest ones. It does
// not bound what comes from counts by interval.
const maxCounted = 50_000

// lateness is how long a request may take to be counted by interval.
const lateness = time.Minute

// span is the time that a chart is drawn for, in whole bars.
type span struct {
	rollup.Range
	title string
	wider bool // the bars begin or end outside of the filter's time
}

// spanOf is the time of the filter, or else the chosen one. It is false for a filter whose
// time is before that of the oldest request.
func spanOf(f *filter, chosen chart.Choice, since, now time.Time) (s span, ok bool) {
	if !f.ranged() {
		return span{rollup.Last(now, chosen.Width, chosen.Spans), "Requests " + chosen.Title, false}, true
	}
	from, to := since.UTC(), now.UTC()
	if f.from.After(from) {
		from = f.from.UTC()
	}
	if !f.to.IsZero() && f.to.Before(to) {
		to = f.to.UTC()
	}
	if !from.Before(to) {
		return s, false
	}
	width, by := 6*time.Hour, "by 6 hours"
	for _, finer := range []struct {
		width, most time.Duration
		by          string
	}{{time.Hour, 120 * time.Hour, byHour}, {5 * time.Minute, 10 * time.Hour, "by 5 minutes"}, {time.Minute, 2 * time.Hour, "by minute"}} {
		if to.Sub(from) <= finer.most {
			width, by = finer.width, finer.by
		}
	}
	return spanFrom(f, from, to, width, by), true
}

const byHour = "by hour"

// spanFrom is the time of a filter, in bars of a width.
func spanFrom(f *filter, from, to time.Time, width time.Duration, by string) span {
	s := span{title: "Requests in the chosen time, " + by}
	s.From, s.Width = from.Truncate(width), width
	s.Spans = int((to.Sub(s.From) + width - 1) / width)
	s.wider = s.From.Before(f.from) || !f.to.IsZero() && s.End().After(f.to)
	return s
}

func (s *span) bars() []chart.Bar {
	return chart.Empty(s.From, s.Width, s.Spans, len(chart.RequestSeries()))
}

// drawing is a chart, and what it leaves out.
type drawing struct {
	*chart.Chart
	Counted bool      // row by row, and not from counts by interval
	Since   time.Time // requests before it are missing; zero: none are
	Wider   bool      // the bars begin or end outside of the filter's time
}

// draw draws the requests that meet a query.
func (p *Pages) draw(ctx context.Context, q *query, s span) (*drawing, error) {
	bars := s.bars()
	d := &drawing{Counted: !q.rolledUp() || !s.Kept(q.now), Wider: s.wider}
	var err error
	if d.Counted {
		d.Since, err = p.addCounted(ctx, q, s, bars)
	} else {
		d.Since, err = p.addRollups(ctx, q, s, bars)
	}
	if err != nil {
		return nil, err
	}
	if d.Counted && !d.Since.IsZero() && q.rolledUp() {
		// Of so many requests, the hours tell more than some of the minutes.
		if hours := spanFrom(&q.filter, s.From, s.End(), time.Hour, byHour); hours.Kept(q.now) {
			return p.draw(ctx, q, hours)
		}
	}
	title := s.title
	if q.key != "" || q.status != "" || q.searched() {
		title += ", as filtered"
	}
	list := chart.RequestSeries()
	for i := len(list) - 1; i >= 0; i-- {
		if q.draws(i) {
			continue
		}
		list = slices.Delete(list, i, i+1)
		for k := range bars {
			bars[k].Counts = slices.Delete(bars[k].Counts, i, i+1)
		}
	}
	d.Chart = chart.New("requests", title, "requests", bars, list).ByDay(s.Width > time.Hour)
	return d, nil
}

// draws tells whether requests of a series can meet the filter.
func (f *filter) draws(series int) bool {
	switch series {
	case chart.Refused:
		return !f.searched() && slices.ContainsFunc(refusedStatuses(), f.meets)
	case chart.ClientError, chart.ServerError:
		first := map[int]string{chart.ClientError: rollup.KindClientError, chart.ServerError: rollup.KindServerError}[series]
		return f.status == "" || strings.HasPrefix(f.status, first)
	}
	return f.status == "" || f.status[0] == '2' || f.status[0] == '3'
}

// rolledUp tells whether there are counts by interval of what meets the filter.
func (f *filter) rolledUp() bool {
	return !f.searched() && len(f.status) < 2 // of a key, of a class of answers
}

// addRollups adds requests from counts by interval, those of all series: a class of answers
// is a series. Since is when requests began to be counted, where there are older ones.
func (p *Pages) addRollups(ctx context.Context, q *query, s span, bars []chart.Bar) (since time.Time, err error) {
	if q.key != "" {
		spans, err := p.Rollups.Key(ctx, q.workspaceID, s.Range, q.key)
		if err != nil {
			return since, err
		}
		for _, k := range spans {
			bars[k.Span].Counts = []int64{k.Requests - k.ClientErrors - k.ServerErrors, k.ClientErrors, k.ServerErrors, k.RateLimited + k.Refused}
		}
	} else {
		counts, err := p.Rollups.Requests(ctx, q.workspaceID, s.Range)
		if err != nil {
			return since, err
		}
		for _, c := range counts {
			bars[c.Span].Counts[chart.OfKind(c.Kind)] += c.N
		}
	}
	return p.uncounted(ctx, q, s)
}

// uncounted returns when requests began to be counted by interval; zero where there are no
// older ones in the time of the chart.
func (p *Pages) uncounted(ctx context.Context, q *query, s span) (since time.Time, err error) {
	if since, err = p.Rollups.RequestsSince(ctx, q.workspaceID); err != nil {
		return since, err
	}
	if since.IsZero() {
		since = q.now.Add(-lateness)
	}
	if !since.After(s.From) {
		return time.Time{}, nil
	}
	var missing bool
	err = p.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM request_log WHERE workspace_id = $1 AND at >= $2 AND at < $3)`, q.workspaceID, s.From, since).Scan(&missing)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot look for requests that are not counted: %w", err)
	}
	if !missing {
		return time.Time{}, nil
	}
	return since, nil
}

// addCounted adds requests that it counts, the newest maxCounted, and refused ones, which
// are kept by the minute. Since is where it stopped.
func (p *Pages) addCounted(ctx context.Context, q *query, s span, bars []chart.Bar) (since time.Time, err error) {
	all := *q
	all.since, all.from, all.to, all.start = s.From, s.From, s.End(), newest()
	b := all.builder()
	inner := b.scanned("at, status, key_id, route", all.start, maxCounted)
	rest := b.rest()
	since, err = addRows(ctx, p, s, bars, fmt.Sprintf(`
		SELECT date_bin(make_interval(secs => %d), at, 'epoch'), (status / 100)::text, count(*) FILTER (WHERE %s), count(*), min(at)
		  FROM (%s) r GROUP BY 1, 2`, int(s.Width.Seconds()), rest, inner), b.args, chart.OfKind)
	if err != nil || q.searched() {
		return since, err
	}
	older, err := addRows(ctx, p, s, bars, `
		SELECT date_bin($4, minute, 'epoch'), reason, coalesce(sum(refused) FILTER (WHERE $5 = '' OR key_id = $5), 0)::bigint, count(*), min(minute)
		  FROM (SELECT minute, reason, refused, key_id FROM request_refused
		         WHERE workspace_id = $1 AND minute >= $2 AND minute < $3
		         ORDER BY minute DESC LIMIT $6) r
		 GROUP BY 1, 2`, []any{q.workspaceID, s.From, s.End(), s.Width, q.key, maxCounted}, func(reason string) int {
		if q.meets(statusOf(reason)) {
			return chart.Refused
		}
		return none
	})
	if older.After(since) {
		since = older
	}
	return since, err
}

// none is the series of what is not drawn.
const none = -1

// addRows adds the counts of a statement, which returns for each bar and kind how many meet
// the filter, how many rows were looked at, and the oldest of them. Since is the oldest row,
// where there were maxCounted; otherwise zero.
func addRows(ctx context.Context, p *Pages, s span, bars []chart.Bar, sql string, args []any, seriesOf func(kind string) int) (since time.Time, err error) {
	rows, err := p.Pool.Query(ctx, sql, slices.Concat([]any{planned}, args)...)
	if err != nil {
		return since, fmt.Errorf("cannot count requests: %w", err)
	}
	var (
		at, first       time.Time
		kind            string
		n, looked, read int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &kind, &n, &looked, &first}, func() error {
		if in := seriesOf(kind); in != none {
			chart.Add(bars, at, s.Width, in, n)
		}
		if read == 0 || first.Before(since) {
			since = first
		}
		read += looked
		return nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot count requests: %w", err)
	}
	if read < maxCounted {
		since = time.Time{}
	}
	return since, nil
}
