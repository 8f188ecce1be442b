package follower

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// found is get, but a 404 is a RefusedError with the detail missing.
func (c *Client) found(ctx context.Context, r *request, missing string) (*reply, error) {
	got, err := c.get(ctx, r)
	if err == nil && got.status == http.StatusNotFound {
		return nil, &RefusedError{Path: r.path, Status: got.status, Detail: missing}
	}
	return got, err
}

// pageQuery says which page is wanted.
type pageQuery struct {
	cursor string // empty: from the start, or from since
	since  string // created_since
	wait   time.Duration
}

// page is a page of the feed.
type page struct {
	events []json.RawMessage // each byte for byte
	next   string            // the cursor after it
	more   bool
	first  int64 // the index of the first event; -1: not said
}

// page reads a page of the feed.
func (c *Client) page(ctx context.Context, q pageQuery) (*page, error) {
	query := url.Values{"limit": {"100"}}
	if q.cursor != "" {
		query.Set("cursor", q.cursor)
	}
	if q.since != "" {
		query.Set("created_since", q.since)
	}
	got, err := c.found(ctx, &request{path: "/v1/events", query: query, wait: q.wait}, "want the API's address, such as https://api.example.com")
	if err != nil {
		return nil, err
	}
	var shown struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    *bool             `json:"has_more"`
		NextCursor string            `json:"next_cursor"`
	}
	if err := json.Unmarshal(got.body, &shown); err != nil || shown.HasMore == nil || shown.NextCursor == "" {
		return nil, &RefusedError{Path: "/v1/events", Status: got.status, Detail: "the answer is no page of a feed"}
	}
	p := &page{events: shown.Data, next: shown.NextCursor, more: *shown.HasMore, first: -1}
	for _, event := range p.events {
		// An output of one event per line needs events without line feeds.
		if bytes.ContainsAny(event, "\n\r") {
			return nil, &RefusedError{Path: "/v1/events", Status: got.status, Detail: "an event is not in the form of the feed: it has a line feed"}
		}
	}
	if index := got.header.Get("Event-Index"); index != "" {
		if p.first, err = signingkey.ParseTreeSize(index); err != nil {
			return nil, &RefusedError{Path: "/v1/events", Status: got.status, Detail: fmt.Sprintf("Event-Index is %.40q", index)}
		}
	}
	return p, nil
}

// noProof is the error's detail if the service has no checkpoint.
const noProof = "there is no checkpoint: this service is of a version, or has a setting, without proofs"

// checkpoint reads the newest checkpoint. With the ETag of one, it waits for a newer one and
// returns a nil note if none came in time.
func (c *Client) checkpoint(ctx context.Context, etag string, wait time.Duration) (note []byte, newTag string, err error) {
	r := &request{path: "/v1/events/checkpoint", header: http.Header{}}
	if etag != "" {
		r.header.Set("If-None-Match", etag)
		r.wait = wait
	}
	got, err := c.found(ctx, r, noProof)
	if err != nil {
		return nil, "", err
	}
	if got.status == http.StatusNotModified {
		if etag == "" {
			return nil, "", &RefusedError{Path: r.path, Status: got.status, Detail: "the answer is for a request with If-None-Match, and this one had none"}
		}
		return nil, etag, nil
	}
	return got.body, got.header.Get("ETag"), nil
}

// Tile reads a tile: tile/<level>/<number>[.p/<width>]. The second result is false if there is
// none.
func (c *Client) Tile(ctx context.Context, path string) ([]byte, bool, error) {
	got, err := c.get(ctx, &request{path: "/v1/events/" + path})
	if err != nil {
		return nil, false, err
	}
	return got.body, got.status == http.StatusOK, nil
}

// Sight is a key's workspace, and whether the key sees payouts, which decides which tree it sees.
type Sight struct {
	Workspace string
	Pay       bool
}

// Sight asks which workspace the key belongs to.
func (c *Client) Sight(ctx context.Context) (*Sight, error) {
	got, err := c.found(ctx, &request{path: "/v1/me"}, "want the API's address, such as https://api.example.com")
	if err != nil {
		return nil, err
	}
	var me struct {
		Company struct {
			ID string `json:"id"`
		} `json:"company"`
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(got.body, &me); err != nil || me.Company.ID == "" {
		return nil, &RefusedError{Path: "/v1/me", Status: got.status, Detail: "the answer names no workspace"}
	}
	return &Sight{me.Company.ID, slices.Contains(me.Scopes, "pay:read")}, nil
}

// PublishedKeys reads the verifier keys that the service itself publishes. They prove nothing
// unless the caller compares them with keys from another source.
func (c *Client) PublishedKeys(ctx context.Context) (string, error) {
	got, err := c.found(ctx, &request{path: "/docs/keys.txt", keyless: true}, "the service names no keys")
	if err != nil {
		return "", err
	}
	return string(got.body), nil
}
