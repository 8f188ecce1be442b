package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Range is the time that a chart shows, in spans of equal width.
type Range struct {
	From  time.Time
	Width time.Duration // of a span: whole minutes, or whole hours
	Spans int
}

// Last returns the range whose last span contains now. Spans are aligned to the clock, in UTC.
func Last(now time.Time, width time.Duration, spans int) Range {
	return Range{now.UTC().Truncate(width).Add(-time.Duration(spans-1) * width), width, spans}
}

// End returns the end of the last span.
func (r Range) End() time.Time { return r.From.Add(time.Duration(r.Spans) * r.Width) }

func (r Range) step() Step {
	if r.Width%time.Hour == 0 {
		return Hour
	}
	return Minute
}

// Kept reports whether all counts of the range are still kept.
func (r Range) Kept(now time.Time) bool {
	retention := hourRetention
	if r.step() == Minute {
		retention = minuteRetention - time.Minute // another process may already be deleting them
	}
	return !r.From.Before(now.Add(-retention))
}

// args returns the arguments of a statement with the condition inRange and the expression
// spanNumber.
func (r Range) args(workspaceID string) []any {
	return []any{workspaceID, r.step(), r.From, r.End(), int64(r.Width / time.Second)}
}

const (
	inRange    = `workspace_id = $1 AND step = $2 AND at >= $3 AND at < $4`
	spanNumber = `div(extract(epoch FROM at - $3), $5::bigint)::integer`
)

// Reader reads counts by interval. It is safe for concurrent use.
type Reader struct{ pool pg.DB }

// NewReader makes a Reader.
func NewReader(pool pg.DB) *Reader { return &Reader{pool} }

// Count is the number of one kind in one span of a range.
type Count struct {
	Span int // from 0
	Kind string
	N    int64
}

// Requests counts requests by the first digit of their status, or "0" for refused ones.
func (r *Reader) Requests(ctx context.Context, workspaceID string, in Range) ([]Count, error) {
	return r.counts(ctx, "requests", `
		SELECT `+spanNumber+`, status_class::text, sum(requests)::bigint FROM request_rollup WHERE `+inRange+` GROUP BY 1, 2`, in.args(workspaceID))
}

// Attempts counts attempts to deliver by outcome.
func (r *Reader) Attempts(ctx context.Context, workspaceID string, in Range) ([]Count, error) {
	return r.counts(ctx, "attempts", `
		SELECT `+spanNumber+`, outcome, sum(attempts)::bigint FROM attempt_rollup WHERE `+inRange+` GROUP BY 1, 2`, in.args(workspaceID))
}

// Events counts events; their kind is empty.
func (r *Reader) Events(ctx context.Context, workspaceID string, in Range) ([]Count, error) {
	return r.counts(ctx, "events", `
		SELECT `+spanNumber+`, '', sum(events)::bigint FROM event_rollup WHERE `+inRange+` GROUP BY 1`, in.args(workspaceID))
}

func (r *Reader) counts(ctx context.Context, what, sql string, args []any) ([]Count, error) {
	list, err := pg.Collect(ctx, r.pool, pgx.RowToStructByPos[Count], sql, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the counts of %s: %w", what, err)
	}
	return list, nil
}

// Latencies is how long requests or attempts took.
type Latencies struct {
	Spans []Latency           // of each span
	Kinds map[string]*Latency // of the whole range, by kind
	All   Latency             // of the whole range
}

// RequestLatency returns how long requests took, by class of their route. It does not count refused
// requests.
func (r *Reader) RequestLatency(ctx context.Context, workspaceID string, in Range) (*Latencies, error) {
	return r.latencies(ctx, "requests", `
		SELECT `+spanNumber+`, route_class, i::integer, sum(n)::bigint
		  FROM request_rollup CROSS JOIN LATERAL unnest(latency) WITH ORDINALITY AS l (n, i)
		 WHERE `+inRange+` AND n > 0 AND status_class > 0 GROUP BY 1, 2, 3`, workspaceID, in)
}

// AnswerLatency returns how long receivers took to answer, by webhook. It does not count attempts
// without an answer.
func (r *Reader) AnswerLatency(ctx context.Context, workspaceID string, in Range) (*Latencies, error) {
	return r.latencies(ctx, "attempts", `
		SELECT `+spanNumber+`, webhook_id, i::integer, sum(n)::bigint
		  FROM attempt_rollup CROSS JOIN LATERAL unnest(latency) WITH ORDINALITY AS l (n, i)
		 WHERE `+inRange+` AND n > 0 AND outcome IN ('success', 'answered') GROUP BY 1, 2, 3`, workspaceID, in)
}

func (r *Reader) latencies(ctx context.Context, what, sql, workspaceID string, in Range) (*Latencies, error) {
	all := &Latencies{Spans: make([]Latency, in.Spans), Kinds: map[string]*Latency{}}
	var (
		span, bucket int
		kind         string
		n            int64
	)
	err := pg.ForEach(ctx, r.pool, sql, in.args(workspaceID), []any{&span, &kind, &bucket, &n}, func() error {
		if bucket < 1 || bucket > len(all.All) {
			return nil // a bucket of a later version
		}
		all.Spans[span][bucket-1] += n
		all.All[bucket-1] += n
		at(all.Kinds, kind)[bucket-1] += n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read how long %s took: %w", what, err)
	}
	return all, nil
}

// KeyUse is the use of a key in a range.
type KeyUse struct {
	KeyID       string
	Requests    int64 // within its limit
	RateLimited int64 // refused because they were over its limit
	Peak        int64 // the most requests within its limit in one minute
}

const keyUse = `key_id, sum(requests)::bigint, sum(rate_limited)::bigint, max(peak)`

// Keys returns at most limit keys that were used: those with the most requests over their limit
// first, then those with the most requests within it.
func (r *Reader) Keys(ctx context.Context, workspaceID string, in Range, limit int) ([]KeyUse, error) {
	return r.keys(ctx, `
		SELECT `+keyUse+` FROM key_rollup WHERE `+inRange+`
		 GROUP BY key_id HAVING sum(requests) + sum(rate_limited) > 0 ORDER BY 3 DESC, 2 DESC, 1 LIMIT $5`, append(in.args(workspaceID)[:4], limit))
}

// KeysByID returns the use of some keys, by their id. Keys that were not used may be
// missing.
func (r *Reader) KeysByID(ctx context.Context, workspaceID string, in Range, keyIDs ...string) (map[string]KeyUse, error) {
	list, err := r.keys(ctx, `SELECT `+keyUse+` FROM key_rollup WHERE `+inRange+` AND key_id = ANY ($5) GROUP BY key_id`, append(in.args(workspaceID)[:4], keyIDs))
	byID := make(map[string]KeyUse, len(list))
	for _, u := range list {
		byID[u.KeyID] = u
	}
	return byID, err
}

func (r *Reader) keys(ctx context.Context, sql string, args []any) ([]KeyUse, error) {
	list, err := pg.Collect(ctx, r.pool, pgx.RowToStructByPos[KeyUse], sql, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the use of keys: %w", err)
	}
	return list, nil
}

// KeySpan is the use of a key in one span of a range.
type KeySpan struct {
	Span         int   // from 0
	Requests     int64 // within its limit
	ClientErrors int64 // of them
	ServerErrors int64 // of them
	RateLimited  int64 // refused because they were over its limit
	Refused      int64 // for another reason
	Peak         int64 // the most requests within its limit in one minute
}

// Key returns the spans in which a key was used.
func (r *Reader) Key(ctx context.Context, workspaceID string, in Range, keyID string) ([]KeySpan, error) {
	list, err := pg.Collect(ctx, r.pool, pgx.RowToStructByPos[KeySpan], `
		SELECT `+spanNumber+`, sum(requests)::bigint, sum(client_errors)::bigint, sum(server_errors)::bigint, sum(rate_limited)::bigint, sum(refused)::bigint, max(peak)
		  FROM key_rollup WHERE `+inRange+` AND key_id = $6 GROUP BY 1`, append(in.args(workspaceID), keyID)...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the use of a key: %w", err)
	}
	return list, nil
}

// RequestsSince returns the start of the first hour, among those that are kept, with counted
// requests of a workspace; the zero Time: none.
func (r *Reader) RequestsSince(ctx context.Context, workspaceID string) (time.Time, error) {
	var since *time.Time
	err := r.pool.QueryRow(ctx, `SELECT min(at) FROM request_rollup WHERE workspace_id = $1 AND step = $2`, workspaceID, Hour).Scan(&since)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read since when requests are counted: %w", err)
	}
	if since == nil {
		return time.Time{}, nil
	}
	return since.UTC(), nil
}
