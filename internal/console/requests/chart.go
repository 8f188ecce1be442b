package requests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/chart"
)

// The series of the chart.
const (
	succeeded = iota
	clientError
	serverError
	refused
)

func series() []chart.Series {
	return []chart.Series{
		{Name: "Succeeded", Look: chart.Good}, {Name: "Client errors", Look: chart.Wait},
		{Name: "Server errors", Look: chart.Bad}, {Name: "Refused", Look: chart.Quiet},
	}
}

// seriesOf is the series of responses whose status has a first digit.
func seriesOf(class int) int {
	switch class {
	case 5:
		return serverError
	case 4:
		return clientError
	}
	return succeeded
}

// maxCounted is how many requests are counted for a chart at most, the newest ones.
// Quarters of an hour that are over are cached, and not among them.
const maxCounted = 50_000

// span is the time that a chart is drawn for.
type span struct {
	from, to time.Time
	width    time.Duration // of a bar
	title    string
}

// spanOf is the time of the filter, or else the last 24 hours or the last hour.
func spanOf(f *filter, day bool, since, now time.Time) span {
	switch {
	case f.ranged():
		s := span{from: since, to: now, width: 6 * time.Hour, title: "Requests in the chosen time"}
		if f.from.After(since) {
			s.from = f.from
		}
		if !f.to.IsZero() && f.to.Before(now) {
			s.to = f.to
		}
		for _, width := range []time.Duration{time.Hour, quarter, 5 * time.Minute, time.Minute} {
			if s.to.Sub(s.from) <= 120*width {
				s.width = width
			}
		}
		s.from = s.from.Truncate(s.width)
		return s
	case day:
		return span{now.Truncate(quarter).Add(-24*time.Hour + quarter), now, quarter, "Requests in the last 24 hours, by quarter of an hour"}
	}
	return span{now.Truncate(time.Minute).Add(-59 * time.Minute), now, time.Minute, "Requests per minute in the last hour"}
}

func (s *span) bars() []chart.Bar {
	n := int((s.to.Sub(s.from) + s.width - 1) / s.width)
	return chart.Empty(s.from, s.width, max(1, n), len(series()))
}

// draw draws the requests that meet a query. Where it could not count all of them it
// returns the moment since which it did.
func (p *Pages) draw(ctx context.Context, q *query, s span) (drawn *chart.Chart, since time.Time, err error) {
	bars := s.bars()
	if s.width == quarter && !q.ranged() && !q.searched() && len(q.status) < 2 {
		err = p.addDay(ctx, q, bars)
	} else {
		since, err = p.addCounted(ctx, q, s, bars)
	}
	if err == nil && !q.searched() {
		err = p.addRefused(ctx, q, s, bars)
	}
	if err != nil {
		return nil, since, err
	}
	title := s.title
	if q.key != "" || q.status != "" || q.searched() {
		title += ", as filtered"
	}
	list := series()
	for i := len(list) - 1; i >= 0; i-- {
		if q.draws(i) {
			continue
		}
		list = slices.Delete(list, i, i+1)
		for k := range bars {
			bars[k].Counts = slices.Delete(bars[k].Counts, i, i+1)
		}
	}
	return chart.New("requests", title, "requests", bars, list), since, nil
}

// draws tells whether requests of a series can meet the filter.
func (f *filter) draws(series int) bool {
	switch series {
	case refused:
		return !f.searched() && slices.ContainsFunc(refusedStatuses(), f.meets)
	case clientError, serverError:
		first := map[int]string{clientError: "4", serverError: "5"}[series]
		return f.status == "" || strings.HasPrefix(f.status, first)
	}
	return f.status == "" || f.status[0] == '2' || f.status[0] == '3'
}

// addDay adds the requests of the last 24 hours, most of which are cached.
func (p *Pages) addDay(ctx context.Context, q *query, bars []chart.Bar) error {
	quarters, err := p.Counts.day(ctx, q.workspaceID, q.now)
	if err != nil {
		return err
	}
	for i := range bars {
		for _, c := range quarters[bars[i].At] {
			if (q.key == "" || c.keyID == q.key) && q.meets(c.class*100) {
				bars[i].Counts[seriesOf(c.class)] += c.n
			}
		}
	}
	return nil
}

// addCounted adds requests that it counts. Since is where it stopped after maxCounted.
func (p *Pages) addCounted(ctx context.Context, q *query, s span, bars []chart.Bar) (since time.Time, err error) {
	all := *q
	all.from, all.to, all.start = s.from, s.to, newest()
	b := all.builder()
	inner := b.scanned("at, status, key_id, route", all.start, maxCounted)
	rest := b.rest()
	rows, err := p.Pool.Query(ctx, fmt.Sprintf(`
		SELECT date_bin(make_interval(secs => %d), at, 'epoch'), status / 100, count(*) FILTER (WHERE %s), count(*), min(at)
		  FROM (%s) r GROUP BY 1, 2`, int(s.width.Seconds()), rest, inner), slices.Concat([]any{planned}, b.args)...)
	if err != nil {
		return since, fmt.Errorf("cannot count requests: %w", err)
	}
	var (
		at, first          time.Time
		class              int
		n, looked, counted int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &class, &n, &looked, &first}, func() error {
		chart.Add(bars, at, s.width, seriesOf(class), n)
		if counted == 0 || first.Before(since) {
			since = first
		}
		counted += looked
		return nil
	})
	if err != nil {
		return since, fmt.Errorf("cannot count requests: %w", err)
	}
	if counted < maxCounted {
		since = time.Time{}
	}
	return since, nil
}

// addRefused adds the refused requests.
func (p *Pages) addRefused(ctx context.Context, q *query, s span, bars []chart.Bar) error {
	rows, err := p.Pool.Query(ctx, `
		SELECT date_bin($4, minute, 'epoch'), reason, sum(refused)::bigint
		  FROM (SELECT minute, reason, refused, key_id FROM request_refused
		         WHERE workspace_id = $1 AND minute >= $2 AND minute < $3
		         ORDER BY minute DESC LIMIT $6) r
		 WHERE $5 = '' OR key_id = $5
		 GROUP BY 1, 2`, q.workspaceID, s.from, s.to, s.width, q.key, maxCounted)
	if err != nil {
		return fmt.Errorf("cannot count refused requests: %w", err)
	}
	var (
		at     time.Time
		reason string
		n      int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &reason, &n}, func() error {
		if q.meets(statusOf(reason)) {
			chart.Add(bars, at, s.width, refused, n)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot count refused requests: %w", err)
	}
	return nil
}
