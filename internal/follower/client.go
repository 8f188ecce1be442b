package follower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxAnswer bounds an answer's body, in bytes. A page of 100 events is far below it.
	maxAnswer = 16 << 20
	// answerTimeout bounds a request, on top of the time that it asks the service to wait.
	answerTimeout = time.Minute
	// firstRetry is the wait after a failed try. It doubles up to longestRetry.
	firstRetry   = time.Second
	longestRetry = time.Minute
	// longestRetryAfter bounds the service's Retry-After.
	longestRetryAfter = time.Hour
)

// ClientConfig configures a Client.
type ClientConfig struct {
	URL    string // of the API, such as https://api.example.com
	Key    string // an API key
	HTTP   http.RoundTripper
	Pause  func(ctx context.Context, d time.Duration) bool // false: ctx ended
	Logger *slog.Logger
	Agent  string // the User-Agent
}

// Client reads a feed over the API and follows the contract's rules for retries.
type Client struct {
	cfg  ClientConfig
	http *http.Client
}

// NewClient makes a Client if its address is valid. Only an address of this machine may have
// http://, which carries the key in plain text.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("want the API's address, such as https://api.example.com")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("%s would carry the key in plain text: want https://; http:// is for this machine alone", u.Host)
	}
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	// A redirect could send the key to another host.
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{cfg: cfg, http: &http.Client{Transport: cfg.HTTP, CheckRedirect: noRedirects}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// RefusedError is an error answer, which a retry usually does not change (see worthRetry).
type RefusedError struct {
	Path      string
	Status    int
	Detail    string // in words
	RequestID string
	Fields    []string // the wrong parameters, of a 400
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%s answered %d", e.Path, e.Status)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// request is a GET.
type request struct {
	path    string // below the API's address
	query   url.Values
	header  http.Header
	wait    time.Duration // how long the service may hold its answer (Prefer)
	keyless bool
}

// reply is an answer with status 200, 304 or 404.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// get sends a request until it has an answer. It retries without end, with growing waits, if the
// contract allows a retry or no answer arrived.
func (c *Client) get(ctx context.Context, r *request) (*reply, error) {
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		got, retryAfter, err := c.try(ctx, r)
		if err == nil || ctx.Err() != nil {
			return got, errors.Join(err, ctx.Err())
		}
		var refused *RefusedError
		if errors.As(err, &refused) && !worthRetry(refused.Status) {
			return nil, err
		}
		pause := max(wait, retryAfter)
		c.cfg.Logger.WarnContext(ctx, "cannot read from the service; it is tried again", "in", pause, "error", err)
		if !c.cfg.Pause(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// worthRetry follows docs/contract/service.md, "Errors". 502 and 504 come from a proxy in front of
// a service that is down.
func worthRetry(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r *request) (got *reply, retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+r.wait)
	defer cancel()
	target := c.cfg.URL + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", r.path, withoutAddress(err))
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.cfg.Agent)
	if !r.keyless {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	if r.wait > 0 {
		req.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(r.wait.Seconds())))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", r.path, withoutAddress(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s: the answer was broken off: %w", r.path, err)
	case len(body) > maxAnswer:
		return nil, 0, &RefusedError{Path: r.path, Status: resp.StatusCode, Detail: "the answer is too long"}
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNotModified, http.StatusNotFound:
		return &reply{resp.StatusCode, resp.Header, body}, 0, nil
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err == nil && seconds > 0 {
		retryAfter = min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	return nil, retryAfter, refusal(r.path, resp, body)
}

// withoutAddress removes the address, which contains the cursor, from an error of net/http.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refusal makes a RefusedError from a problem document.
func refusal(path string, resp *http.Response, body []byte) error {
	var problem struct {
		Detail    string `json:"detail"`
		RequestID string `json:"request_id"`
		Errors    []struct {
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	e := &RefusedError{Path: path, Status: resp.StatusCode}
	if json.Unmarshal(body, &problem) == nil {
		e.Detail, e.RequestID = problem.Detail, problem.RequestID
		for _, row := range problem.Errors {
			e.Detail = strings.TrimSpace(e.Detail + " " + row.Field + " " + row.Message)
			e.Fields = append(e.Fields, row.Field)
		}
	}
	if resp.StatusCode/100 == 3 {
		e.Detail = "a redirect, which is not followed: want the API's own address"
	}
	return e
}
