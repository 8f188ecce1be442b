package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// firstRetry is the wait after a failed try. It doubles up to longestRetry.
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	// defaultRetryFor is above a minute, after which the API's rate limit begins anew.
	defaultRetryFor = 2 * time.Minute
	// answerTimeout bounds one try, on top of the time that it asks the API to wait.
	answerTimeout = time.Minute
	// maxAnswer bounds an answer's body, in bytes. Whole lists have no bound.
	maxAnswer = 64 << 20
)

// errNoAnswer is why a try ended. It is not the caller's context that ended.
var errNoAnswer = errors.New("there was no whole answer in time")

// Config configures a Client. URL and Key are needed.
type Config struct {
	URL string // of the API, such as https://api.example.com
	Key string // an API key

	// RetryFor is how long one call goes on trying. Zero means two minutes; negative means one try.
	RetryFor time.Duration

	// CacheEntries is how many answers the Client keeps, at most. If it has an answer already, it
	// asks whether that one is still right, which saves the transfer. Zero keeps none.
	CacheEntries int

	Transport http.RoundTripper // nil: http.DefaultTransport
	Logger    *slog.Logger      // hears of tries that failed and of followers that start again
	UserAgent string            // of your program

	// For tests. A nil field means the real thing.
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error // the error is ctx's
	Random func() float64                                   // from 0 up to 1
}

// Client reads the data of the workspace to which the key belongs. It is safe for use by several
// goroutines.
type Client struct {
	cfg        Config
	http       *http.Client
	base       *atomic.Pointer[string] // the API's address, without a slash at its end
	cache      *cache                  // nil: nothing is kept
	atPosition int64                   // see AtLeast
}

// New makes a Client. Only an address of this machine may have http://, because it carries the key
// in plain text.
func New(cfg Config) (*Client, error) {
	base, err := checkAddress(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.RetryFor == 0 {
		cfg.RetryFor = defaultRetryFor
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	// A redirect could send the key to another host.
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{cfg: cfg, http: &http.Client{Transport: cfg.Transport, CheckRedirect: noRedirects}, base: &atomic.Pointer[string]{}}
	c.base.Store(&base)
	if cfg.CacheEntries > 0 {
		c.cache = newCache(cfg.CacheEntries)
	}
	return c, nil
}

// checkAddress returns the address in the form in which paths follow.
func checkAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("want the API's address, such as https://api.example.com")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("%s would carry the key in plain text: want https://; http:// is for this machine alone", u.Host)
	}
	return strings.TrimSuffix(address, "/"), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AtLeast returns a Client whose answers are from the log's position or a later one, on whichever
// server they come from. With the position of a Delivery you read the state that includes its
// event:
//
//	invoice, err := api.AtLeast(delivery.Position).Invoice(ctx, delivery.Event.Data.InvoiceID)
func (c *Client) AtLeast(position int64) *Client {
	at := *c
	at.atPosition = position
	return &at
}

// request is a GET.
type request struct {
	path   string
	query  url.Values
	wait   time.Duration // how long the API may hold its answer (Prefer)
	stream bool
}

// answer is an answer with status 200.
type answer struct {
	header http.Header
	body   []byte
	stream io.ReadCloser // in place of body, if the request wants it
}

// position is the position of the log that the answer shows; zero if it does not say.
func (a *answer) position() int64 {
	position, _ := strconv.ParseInt(a.header.Get("Log-Position"), 10, 64)
	return position
}

// get reads the JSON of an answer.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	a, err := c.do(ctx, &request{path: path, query: query})
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(a.body, value); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return value, nil
}

// do sends a request until it is answered, for as long as Config.RetryFor allows.
func (c *Client) do(ctx context.Context, r *request) (*answer, error) {
	until := c.cfg.Now().Add(c.cfg.RetryFor)
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		a, err := c.try(ctx, r)
		if err == nil {
			return a, nil
		}
		if ended := context.Cause(ctx); errors.Is(err, ended) {
			return nil, err
		} else if ended != nil {
			return nil, fmt.Errorf("%w: %w", ended, err)
		}
		pause, again := c.pause(err, wait)
		if !again || c.cfg.Now().Add(pause).After(until) {
			return nil, err
		}
		c.cfg.Logger.WarnContext(ctx, "a request failed and is tried again", "in", pause, "error", err)
		if ended := c.cfg.Sleep(ctx, pause); ended != nil {
			return nil, fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// pause returns how long to wait before the next try, at random, so that the clients of a service
// that comes back do not come at the same moment. again is false if a retry changes nothing.
func (c *Client) pause(err error, wait time.Duration) (pause time.Duration, again bool) {
	spread := time.Duration(c.cfg.Random() * float64(wait) / 2)
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return 0, false
	}
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return wait/2 + spread, true // the connection broke
	}
	if base, err := checkAddress(refused.movedTo); err == nil && refused.Status == http.StatusServiceUnavailable {
		c.base.Store(&base) // the workspace moved there with its keys and cursors
		return wait/2 + spread, true
	}
	return max(wait/2, refused.RetryAfter) + spread, refused.worthRetry()
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r *request) (*answer, error) {
	ctx, end := context.WithCancelCause(ctx)
	cancel := func() { end(nil) }
	late := time.AfterFunc(answerTimeout+r.wait, func() { end(errNoAnswer) })
	defer late.Stop()
	target := *c.base.Load() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var kept *answer
	if !r.stream && r.wait == 0 {
		kept = c.cache.get(target)
	}
	resp, err := c.send(ctx, r, target, kept)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), withoutAddress(err))
		cancel()
		return nil, fmt.Errorf("%s: %w", r.path, err)
	}
	if r.stream && resp.StatusCode == http.StatusOK {
		return &answer{header: resp.Header, stream: &stream{resp.Body, cancel}}, nil
	}
	defer cancel()
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: the answer was broken off: %w", r.path, cmp.Or(context.Cause(ctx), err))
	case len(body) > maxAnswer:
		return nil, &Error{Path: r.path, Status: resp.StatusCode, Detail: "the answer is too long"}
	case resp.StatusCode == http.StatusOK:
		a := &answer{header: resp.Header, body: body}
		c.cache.put(target, a)
		return a, nil
	case resp.StatusCode == http.StatusNotModified && kept != nil:
		return &answer{header: resp.Header, body: kept.body}, nil
	}
	return nil, refusal(r.path, resp.StatusCode, resp.Header, body, c.cfg.Now())
}

// send sends a request with its headers. kept is the answer that may still be right.
func (c *Client) send(ctx context.Context, r *request, target string, kept *answer) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err //nolint:wrapcheck // try says what it was about
	}
	req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	req.Header.Set("User-Agent", strings.TrimSpace("ledgerfeed-go "+c.cfg.UserAgent))
	if r.wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(int(r.wait.Seconds())))
	}
	if c.atPosition > 0 {
		req.Header.Set("Log-Position-At-Least", strconv.FormatInt(c.atPosition, 10))
	}
	if kept != nil {
		req.Header.Set("If-None-Match", kept.header.Get("ETag"))
	}
	return c.http.Do(req) //nolint:wrapcheck // try says what it was about
}

// stream is a body that frees what its request holds when it is closed.
type stream struct {
	io.ReadCloser

	cancel context.CancelFunc
}

func (s *stream) Close() error {
	defer s.cancel()
	return s.ReadCloser.Close()
}

// withoutAddress removes the address, which contains the cursor, from an error of net/http.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
