package readapi

import (
	"log/slog"
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// Refusal says why a request was refused before it was looked at more closely.
// Refused requests are counted by the minute, not listed (docs/contract/service.md, "Limits",
// 6).
type Refusal string

// The refusals. Those of keys are access's reasons.
const (
	RefusedMethod    Refusal = "method"
	RefusedHeaders   Refusal = "headers"
	RefusedNotHTTP   Refusal = "not_http"
	RefusedKeyInURL  Refusal = "key_in_url"
	RefusedSlowDown  Refusal = "slow_down"
	RefusedRateLimit Refusal = "rate_limit"
)

// statusGone stands in the log for requests whose caller did not wait.
const statusGone = 499

// record tells the log of a request.
func (a *API) record(c *call) {
	ctx := c.r.Context()
	record := requestlog.Record{
		At: c.began, RequestID: c.requestID, Method: method(c.r.Method), Status: c.status,
		Duration: a.cfg.Clock().Sub(c.began), Bytes: c.bytes, Rows: c.rows, Refusal: string(c.refusal),
	}
	if c.key != nil {
		record.WorkspaceID, record.KeyID, record.KeyPrefix = c.key.WorkspaceID, c.key.ID, c.key.Prefix
	} else if refused := refusedKey(c.cause); refused != nil {
		record.WorkspaceID, record.KeyID = refused.WorkspaceID, refused.KeyID
		if refused.KeyID != "" { // a prefix that belongs to nobody is the caller's own text
			record.KeyPrefix = refused.Prefix
		}
	}
	if c.route != nil {
		record.Route = c.route.pattern
	}
	if c.status >= http.StatusInternalServerError && c.gone() {
		record.Status = statusGone
	}
	a.measures.observe(&record)
	a.cfg.Requests.Record(&record)
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
	attributes := append(make([]slog.Attr, 0, 12),
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
	if record.Refusal != "" {
		attributes = append(attributes, slog.String("refused", record.Refusal))
	}
	if level > slog.LevelInfo && c.cause != nil {
		attributes = append(attributes, slog.String("error", a.cfg.Format.Redact(c.cause.Error())))
	}
	a.cfg.Logger.LogAttrs(ctx, level, "request", attributes...)
}

// method keeps made-up methods out of the log.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
