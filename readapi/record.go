package readapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// statusGone is the status that the log shows for failed requests whose caller had gone.
const statusGone = 499

// record writes a request to the metrics, the request log and the log.
func (a *API) record(q *request) {
	ctx := q.http.Context()
	problem := cmp.Or(q.problem, &answer.Error{})
	record := requestlog.Record{
		At: q.began, RequestID: q.id, Method: tracing.KnownMethod(q.http.Method), Status: q.out.Status,
		Duration: a.cfg.Clock().Sub(q.began) - q.wait.waited, Bytes: q.out.Bytes, Rows: q.rows, Refusal: string(problem.Refusal), Route: q.page,
	}
	var refused *access.RefusedError
	if q.key != nil {
		record.WorkspaceID, record.KeyID, record.KeyPrefix = q.key.WorkspaceID, q.key.ID, q.key.Prefix
	} else if errors.As(problem.Cause, &refused) {
		record.WorkspaceID, record.KeyID = refused.WorkspaceID, refused.KeyID
		if refused.KeyID != "" { // the prefix of an unknown key is the caller's own text
			record.KeyPrefix = refused.Prefix
		}
	}
	if q.endpoint != nil {
		record.Route = q.endpoint.Path
	}
	if q.isWhole() && q.out.Status == http.StatusOK && record.Method != http.MethodHead {
		record.Streamed = true
	}
	if q.broken { // the status that was sent does not say how the answer ended
		record.Status = problem.Status
	}
	if q.out.Status >= http.StatusInternalServerError && errors.Is(ctx.Err(), context.Canceled) {
		record.Status = statusGone
	}
	if record.WorkspaceID != "" && record.Refusal == "" { // all others are only counted
		a.explain(q, &record)
	}
	a.metrics.observe(ctx, &record)
	if q.wait.waited > 0 {
		a.metrics.waited.Observe(q.wait.waited.Seconds())
	}
	describe(ctx, &record)
	a.cfg.Requests.Record(&record)
	if problem.Refusal == answer.RefusedSlowDown {
		a.logSlowDown(ctx, q)
		return
	}
	a.log(ctx, q, &record, cmp.Or(problem.Cause, q.out.Err))
}

// explain adds what the console shows about a request that was not refused: its address and user
// agent, its path if the route does not say it, and the text of an error.
func (a *API) explain(q *request, record *requestlog.Record) {
	record.Address = q.address
	own := newOwnKey(q.http.Header.Values("Authorization"))
	record.UserAgent = a.keys.bounded(q.http.UserAgent(), requestlog.MaxUserAgent, own)
	if path := q.http.URL.EscapedPath(); path != record.Route {
		record.Path = a.keys.bounded(withoutQuery(path), requestlog.MaxPath, own)
		if own.in(path) { // the part that is cut off may hold the rest of the key
			record.Path = heldKey
		}
	}
	if p := q.problem; p != nil {
		title := answer.Title(p.Status)
		if q.broken {
			title = "The list was broken off"
		}
		record.Problem = &requestlog.Problem{Title: title, Detail: p.Detail, Permission: string(p.Lacks)}
		for _, e := range p.Errors[:min(len(p.Errors), requestlog.MaxFaults)] {
			field := q.paramName(e.Field)
			if own.in(field) {
				field = unknownParamName
			}
			record.Problem.Errors = append(record.Problem.Errors, requestlog.Fault{Field: field, Message: e.Message})
		}
	}
}

// queryInPath matches the beginning of a query that the caller sent as a part of the path, encoded
// once or more. A query has values, which the request log does not keep.
var queryInPath = regexp.MustCompile(`[&;=]|%(?i:(?:25)*(?:3f|26|3b|3d))`)

// withoutQuery cuts such a query off a path.
func withoutQuery(path string) string {
	if !strings.ContainsAny(path, "%&;=") { // nearly every path
		return path
	}
	if at := queryInPath.FindStringIndex(path); at != nil {
		return path[:at[0]] + "…"
	}
	return path
}

// paramName returns a parameter's name as the request log keeps it. A name that the endpoint does
// not know is the caller's own text. It explains the error, so it is kept if it looks like a
// parameter's name: letters, such as pageSize or filter[status]. Ids, numbers and secrets have
// digits.
func (q *request) paramName(name string) string {
	for _, p := range q.endpoint.Params {
		if p.Name == name {
			return p.Name
		}
	}
	if name == answer.HeaderAtLeast {
		return name
	}
	if name == "" || len(name) > maxUnknownParamName {
		return unknownParamName
	}
	for _, c := range []byte(name) {
		if letter := 'a' <= c|0x20 && c|0x20 <= 'z'; !letter && strings.IndexByte("_-.[]", c) < 0 {
			return unknownParamName
		}
	}
	return strings.Clone(name)
}

// maxUnknownParamName is the longest unknown parameter name that is kept, in bytes.
const maxUnknownParamName = 40

// unknownParamName replaces the names of unknown parameters in the log, because callers may put
// anything into them.
const unknownParamName = "(unknown)"

// wrongParams returns the names of the parameters for which a request was refused.
func (q *request) wrongParams() (names []string) {
	if q.problem == nil {
		return nil
	}
	for _, e := range q.problem.Errors {
		name := e.Field
		if name != answer.HeaderAtLeast && !slices.ContainsFunc(q.endpoint.Params, func(p route.Param) bool { return p.Name == name }) {
			name = unknownParamName
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// describe completes the span of a request, if it has one.
func describe(ctx context.Context, record *requestlog.Record) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	tracing.EndRequest(span, record.Method, record.Route, record.Status)
	span.SetAttributes(
		attribute.String("ledgerfeed.workspace", record.WorkspaceID),
		attribute.String("ledgerfeed.request_id", record.RequestID),
		attribute.Int("ledgerfeed.rows", record.Rows),
	)
	if record.Refusal != "" {
		span.SetAttributes(attribute.String("ledgerfeed.refused", record.Refusal))
	}
}

// logSlowDown writes one line a minute for an address, because a flood of refused keys
// must not fill the disk.
func (a *API) logSlowDown(ctx context.Context, q *request) {
	if q.out.Allowance.FirstRefused {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "an address sends refused keys and is slowed down; its other requests without a valid key are not logged in this minute",
			slog.String("address", q.address.String()), slog.String("request_id", q.id), slog.String("refused", string(answer.RefusedSlowDown)))
	}
}

// log writes the one log line of a request.
func (a *API) log(ctx context.Context, q *request, record *requestlog.Record, cause error) {
	level := slog.LevelInfo
	switch {
	case record.Status == http.StatusInternalServerError:
		level = slog.LevelError
	case record.Status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	if !a.cfg.Logger.Enabled(ctx, level) {
		return
	}
	attributes := append(make([]slog.Attr, 0, 14),
		slog.String("method", record.Method),
		slog.String("route", record.Route),
		slog.Int("status", record.Status),
		slog.Duration("duration", record.Duration),
		slog.Int("bytes", record.Bytes),
		slog.Int("rows", record.Rows),
		slog.String("key", record.KeyPrefix),
		slog.String("workspace", record.WorkspaceID),
		slog.String("request_id", record.RequestID),
	)
	if q.wait.waited > 0 {
		attributes = append(attributes, slog.Duration("waited", q.wait.waited))
	}
	if record.Refusal != "" {
		attributes = append(attributes, slog.String("refused", record.Refusal))
	}
	if wrong := q.wrongParams(); len(wrong) > 0 {
		attributes = append(attributes, slog.Any("wrong_parameters", wrong))
	}
	if q.problem != nil && q.problem.Lacks != "" {
		attributes = append(attributes, slog.String("lacks_permission", string(q.problem.Lacks)))
	}
	if level > slog.LevelInfo && cause != nil {
		attributes = append(attributes, slog.String("error", a.cfg.Format.Redact(cause.Error())))
	}
	a.cfg.Logger.LogAttrs(ctx, level, "request", attributes...)
}
