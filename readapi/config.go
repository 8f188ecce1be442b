package readapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// Authenticator looks up the key that a text stands for; *access.Directory is one. It returns
// access.ErrRefused if the text is not a valid key, and access.ErrUnavailable if it cannot tell
// now.
type Authenticator interface {
	Authenticate(ctx context.Context, text string) (*access.Key, error)
	// AuthenticateSlowly is Authenticate for addresses that are slowed down.
	AuthenticateSlowly(ctx context.Context, text string) (*access.Key, error)
}

// Limiter counts requests in clock minutes; *access.Limiter is one. Its methods
// must be quick and safe for concurrent use.
type Limiter interface {
	// Take counts one request of a key.
	Take(key *access.Key) access.Allowance
	// Left returns what a key has left, without counting.
	Left(key *access.Key) access.Allowance
	// Refuse counts one refused key of an address.
	Refuse(address netip.Addr) access.Allowance
	// Refusals returns what an address has left, without counting.
	Refusals(address netip.Addr) access.Allowance
}

// RequestLog gets the record of every request after its answer was written;
// *requestlog.Store is one. Record must not block and must not retain the record.
type RequestLog interface {
	Record(record *requestlog.Record)
}

// Config configures an API. Fields without a default are required.
type Config struct {
	// Pool reads the read tables; see ReadBuffer and PoolSettings.
	Pool pg.DB

	// Feed reads events. It should use Pool too, whose connections are shared out among workspaces.
	Feed *eventlog.Feed

	// Share is how many of Pool's connections one workspace's pages may use at once. Default: a
	// third of the connections for pages.
	Share int

	// Copy is read from first; nil: all answers are read from Pool.
	Copy *Copy

	// Notifier wakes waiting requests when the visible position of a workspace moves. Nil: they
	// notice within seconds.
	Notifier *eventlog.Notifier

	// MaxWaits is how many requests may wait at once for something on a list, and how many for a
	// position. MaxWaitsHTTP1 limits both kinds together over HTTP/1, where each waiting request
	// occupies a connection; each kind gets half. One workspace may use a quarter of each limit or
	// 10 waits, whichever is more, but never more than half of the HTTP/1 waits. Defaults:
	// DefaultMaxWaits, MaxWaits.
	MaxWaits, MaxWaitsHTTP1 int

	Keys    Authenticator
	Format  access.Format
	Limiter Limiter
	Clock   func() time.Time
	Logger  *slog.Logger

	// Brand is part of the names of webhook headers in the OpenAPI document, and begins every key
	// (LEDGERFEED_BRAND).
	Brand brand.Brand

	// BaseURL is the address at which callers reach the API. DocsURL is the address of its
	// documentation. Neither ends with a slash.
	BaseURL, DocsURL string

	// Signing has the service's signing keys. The API signs checkpoints with them and publishes
	// their public parts. Nil: there are none.
	Signing *signingkey.Keys

	// TrustedProxies are the peers whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix

	// CursorKey is 32 random bytes that seal cursors and key ETags. All instances of a service must
	// use the same key and never change it, because cursors sealed with another key are refused.
	// See SharedCursorKey.
	CursorKey []byte

	// Retention is how long events can be read after they were published.
	// Default: 720 hours.
	Retention time.Duration

	// Timeout bounds a request from its first check to its answer. A request that takes longer gets
	// a 503. Default: 10 seconds.
	Timeout time.Duration

	// CacheBytes bounds the memory for cached answers. Default: DefaultCacheBytes;
	// below 0: nothing is cached.
	CacheBytes int

	// Requests gets a record of every request; nil: no records.
	Requests RequestLog

	// WholeLists configures answers that are a whole list.
	WholeLists WholeLists

	// Tracer makes a span for each request; nil: no spans.
	Tracer trace.Tracer

	// Metrics registers the collectors; nil: they are not registered.
	Metrics prometheus.Registerer

	waiting waitTimes
}

// DefaultMaxWaits is the default of Config.MaxWaits.
const DefaultMaxWaits = 10_000

// WholeLists configures answers that are a whole list
// (docs/contract/decisions.md, "Responses", whole lists).
type WholeLists struct {
	// Pool reads whole lists; see WholeListPoolSettings. It is separate from Config.Pool, so that
	// lists that take minutes do not use up the connections for pages. Nil: there are no whole
	// lists, and lists are answered in pages whatever the caller accepts.
	Pool pg.DB

	// Most is how many whole lists may be read at once, MostOfWorkspace how many of them by one
	// workspace. Defaults: the number of Pool's connections, and a third of Most.
	Most, MostOfWorkspace int

	// Timeout bounds a whole list, because while it is read the database must keep everything that
	// was deleted or changed since it began. Default: 15 minutes.
	Timeout time.Duration

	// Keep is how long a list keeps its place even if a workspace that reads none needs it.
	// Default: a minute.
	Keep time.Duration

	// Stall is how long a reader may take none of the data that waits for it. Default: a minute.
	Stall time.Duration
}

func (l WholeLists) withDefaults() (WholeLists, error) {
	if l.Most < 0 || l.MostOfWorkspace < 0 || l.Timeout < 0 || l.Stall < 0 || l.Keep < 0 {
		return l, errors.New("readapi: no field of Config.WholeLists must be below 0")
	}
	if l.Pool != nil {
		l.Most = cmp.Or(l.Most, pg.Size(l.Pool))
	}
	l.MostOfWorkspace = cmp.Or(l.MostOfWorkspace, (l.Most+2)/3)
	l.Timeout, l.Stall = cmp.Or(l.Timeout, defaultListTimeout), cmp.Or(l.Stall, defaultStall)
	l.Keep = cmp.Or(l.Keep, defaultKeep)
	return l, nil
}

// ReadBuffer is the recommended size of the read buffer of Config.Pool's connections, in bytes. A
// page of 50 rows is about 55 KB.
const ReadBuffer = 32 << 10

// PoolSettings returns the run-time parameters of Config.Pool's connections. Every list reads a few
// rows in index order, so one generic plan is best for all values. The planner must never choose to
// read and sort a whole workspace, whatever the statistics say. PostgreSQL cancels a statement that
// takes longer than statementTimeout, and its request gets a 503: filters that share hardly any row
// can make the database look at every row of a workspace.
func PoolSettings() map[string]string {
	return map[string]string{
		"plan_cache_mode":                 "force_generic_plan",
		"enable_seqscan":                  "off",
		"enable_bitmapscan":               "off",
		"enable_sort":                     "off",
		"max_parallel_workers_per_gather": "0",
		"jit":                             "off",
		"statement_timeout":               milliseconds(statementTimeout),
	}
}

// milliseconds formats a duration as a PostgreSQL setting.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// statementTimeout is half of the default Timeout. The other half is for waiting for a connection.
const statementTimeout = defaultTimeout / 2

const (
	defaultRetention = 720 * time.Hour
	defaultTimeout   = 10 * time.Second
	cursorKeySize    = 32

	defaultListTimeout = 15 * time.Minute
	defaultStall       = time.Minute
	defaultKeep        = time.Minute
)

// withDefaults completes a Config and reports every mistake at once.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"Pool", c.Pool != nil},
		{"Feed", c.Feed != nil},
		{"Keys", c.Keys != nil},
		{"Limiter", c.Limiter != nil},
		{"Clock", c.Clock != nil},
		{"Logger", c.Logger != nil},
		{"BaseURL", isAddress(c.BaseURL)},
		{"DocsURL", isAddress(c.DocsURL)},
	} {
		if !f.given {
			errs = append(errs, fmt.Errorf("readapi: Config.%s is missing or wrong", f.name))
		}
	}
	if len(c.CursorKey) != cursorKeySize {
		errs = append(errs, fmt.Errorf("readapi: Config.CursorKey must have %d bytes, not %d", cursorKeySize, len(c.CursorKey)))
	}
	if c.Retention < 0 || c.Timeout < 0 || c.Share < 0 || c.MaxWaits < 0 || c.MaxWaitsHTTP1 < 0 {
		errs = append(errs, errors.New("readapi: Config.Retention, Config.Timeout, Config.Share, Config.MaxWaits and Config.MaxWaitsHTTP1 must not be below 0"))
	}
	if c.Copy != nil && (c.Copy.Pool == nil || c.Copy.Usable == nil || c.Copy.Alive == nil) {
		errs = append(errs, errors.New("readapi: Config.Copy needs a Pool, Usable and Alive"))
	}
	lists, err := c.WholeLists.withDefaults()
	c.WholeLists = lists
	errs = append(errs, err)
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	c.waiting = c.waiting.withDefaults()
	c.MaxWaits = cmp.Or(c.MaxWaits, DefaultMaxWaits)
	c.MaxWaitsHTTP1 = cmp.Or(c.MaxWaitsHTTP1, c.MaxWaits)
	if c.Notifier == nil && c.Pool != nil && c.Logger != nil {
		c.Notifier = eventlog.NewNotifier(c.Pool, c.Logger)
	}
	if c.Requests == nil {
		c.Requests = noRequestLog{}
	}
	return c, errors.Join(errs...)
}

// newShares makes the shares of a pool. It leaves a quarter of the connections, at least one if
// there are several, to single rows and versions.
func (c *Config) newShares(pool pg.DB) *shares {
	all := pg.Size(pool)
	pages := max(1, all-max(1, all/4))
	return newShares(pages, cmp.Or(c.Share, pages/3), c.Timeout/2)
}

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.HasSuffix(s, "/")
}

type noRequestLog struct{}

func (noRequestLog) Record(*requestlog.Record) {}
