package requests

import (
	"context"
	"fmt"
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

// dayChart draws the requests of 24 hours by quarters of an hour.
func (p *Pages) dayChart(ctx context.Context, workspaceID string, now time.Time) (*chart.Chart, error) {
	quarters, err := p.Counts.day(ctx, workspaceID, now)
	if err != nil {
		return nil, err
	}
	bars := chart.Empty(now.Truncate(quarter).Add(-24*time.Hour+quarter), quarter, int(24*time.Hour/quarter), len(series()))
	for i := range bars {
		for _, c := range quarters[bars[i].At] {
			bars[i].Counts[seriesOf(c.class)] += c.n
		}
	}
	if err := p.addRefused(ctx, workspaceID, bars, quarter); err != nil {
		return nil, err
	}
	return chart.New("requests", "Requests in the last 24 hours, by quarter of an hour", "requests", bars, series()), nil
}

// hourChart draws the requests of an hour by minutes.
func (p *Pages) hourChart(ctx context.Context, workspaceID string, now time.Time) (*chart.Chart, error) {
	bars := chart.Empty(now.Truncate(time.Minute).Add(-59*time.Minute), time.Minute, 60, len(series()))
	rows, err := p.Pool.Query(ctx, `
		SELECT date_trunc('minute', at), status / 100, count(*) FROM request_log
		 WHERE workspace_id = $1 AND at >= $2 GROUP BY 1, 2`, workspaceID, bars[0].At)
	if err != nil {
		return nil, fmt.Errorf("cannot count requests: %w", err)
	}
	var (
		at    time.Time
		class int
		n     int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &class, &n}, func() error {
		chart.Add(bars, at, time.Minute, seriesOf(class), n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count requests: %w", err)
	}
	if err := p.addRefused(ctx, workspaceID, bars, time.Minute); err != nil {
		return nil, err
	}
	return chart.New("requests", "Requests per minute in the last hour", "requests", bars, series()), nil
}

// addRefused adds the refused requests to bars of a width.
func (p *Pages) addRefused(ctx context.Context, workspaceID string, bars []chart.Bar, width time.Duration) error {
	rows, err := p.Pool.Query(ctx, `
		SELECT minute, sum(refused)::bigint FROM request_refused WHERE workspace_id = $1 AND minute >= $2 GROUP BY 1`,
		workspaceID, bars[0].At)
	if err != nil {
		return fmt.Errorf("cannot count refused requests: %w", err)
	}
	var (
		at time.Time
		n  int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		chart.Add(bars, at, width, refused, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot count refused requests: %w", err)
	}
	return nil
}
