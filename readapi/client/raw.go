package client

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
)

// RawRow is a row as the API wrote it, with the fields that this package does not know yet.
type RawRow json.RawMessage

// RawList reads a list whose rows the caller decodes, for example to copy all fields of a list whose
// fields only its description names. Removed rows are among the rows; they have "removed": true.
type RawList struct {
	client *Client
	path   string
	query  url.Values
}

// RawList is the list at a path such as /v1/invoices, with parameters such as include=removed. The
// parameters limit and cursor are not for the caller.
func (c *Client) RawList(path string, query url.Values) *RawList {
	return &RawList{client: c, path: path, query: query}
}

// Whole reads what follows a cursor in one answer; an empty cursor stands for the start.
func (l *RawList) Whole(cursor string) *Whole[RawRow] {
	w := whole[RawRow](l.client, l.path, l.own())
	if cursor != "" {
		w.query.Set("cursor", cursor)
	}
	return w
}

// Follow gives what has changed since the place in state, and then waits for more. See
// FollowInvoices.
func (l *RawList) Follow(ctx context.Context, state State, o FollowOptions) iter.Seq2[*Page[RawRow], error] {
	return follow[RawRow](ctx, l.client, l.path, l.own(), state, o)
}

// own is the query for one reading, which changes it.
func (l *RawList) own() url.Values {
	query := maps.Clone(l.query)
	if query == nil {
		query = url.Values{}
	}
	return query
}

// OpenAPI reads the description of the API, which names the lists and their fields.
func (c *Client) OpenAPI(ctx context.Context) (json.RawMessage, error) {
	document, err := get[json.RawMessage](ctx, c, "/v1/openapi.json", nil)
	if err != nil {
		return nil, err
	}
	return *document, nil
}

// RawAnswer is an answer as the API wrote it.
type RawAnswer struct {
	Body     json.RawMessage
	Position int64 // the position of the log that it shows; zero if it does not say
}

// Raw reads a path such as /v1/totals/invoices. It is for callers who hand an answer on.
func (c *Client) Raw(ctx context.Context, path string, query url.Values) (*RawAnswer, error) {
	a, err := c.do(ctx, &request{path: path, query: query})
	if err != nil {
		return nil, err
	}
	return &RawAnswer{a.body, a.position()}, nil
}
