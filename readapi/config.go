package readapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// Authenticator tells whose key a text is; *access.Directory is one. Errors:
// access.ErrRefused for a text that is no valid key, access.ErrUnavailable when
// that cannot be said now.
type Authenticator interface {
	Authenticate(ctx context.Context, text string) (*access.Key, error)
}

// Limiter counts requests in clock minutes; *limit.Limiter is one. Its methods
// must be quick and safe for concurrent use.
type Limiter interface {
	// Take counts one request of a key.
	Take(key *access.Key) limit.Allowance
	// Refuse counts one refused key of an address.
	Refuse(address netip.Addr) limit.Allowance
	// Refusals tells where an address stands without counting.
	Refusals(address netip.Addr) limit.Allowance
}

// RequestLog is told of every request after its answer was written.
// *requestlog.Store is one. Record must not block and must not keep the record.
type RequestLog interface {
	Record(record *requestlog.Record)
}

// Config of an API. Fields without a default are required.
type Config struct {
	// Pool reads the read tables; see ReadBuffer and PoolSettings.
	Pool *pgxpool.Pool

	// Feed reads events.
	Feed *eventlog.Feed

	Keys    Authenticator
	Format  access.Format
	Limiter Limiter
	Clock   func() time.Time
	Logger  *slog.Logger

	// Brand stands in the description of the API (LEDGERFEED_BRAND).
	Brand brand.Brand

	// BaseURL is the address under which callers reach the API, DocsURL that of
	// its documentation; both without a slash at the end.
	BaseURL, DocsURL string

	// TrustedProxies are peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix

	// CursorKey, 32 random bytes, seals cursors and ETags. All instances of a
	// service have the same, and keep it: cursors made with another are refused.
	CursorKey []byte

	// Retention is how long events can be read after they were published.
	// Default: 720 hours.
	Retention time.Duration

	// Timeout bounds a request from its first check to its answer; past it the
	// answer is 503. Default: 10 seconds.
	Timeout time.Duration

	// CacheBytes is the memory for answers that are asked for again and again.
	// Default: DefaultCacheBytes; below 0: none are kept.
	CacheBytes int

	// Requests is told of every request; nil: nobody.
	Requests RequestLog

	// Metrics registers the collectors; nil: nothing is measured.
	Metrics prometheus.Registerer
}

// ReadBuffer is the size of a connection's read buffer, in bytes, that suits
// Config.Pool: a page of 50 rows is about 55 KB.
const ReadBuffer = 32 << 10

// PoolSettings are the run-time parameters that suit Config.Pool. Every list
// reads a few rows in the order of an index, so the plan that is made once for
// all values is the best one, and one that reads and sorts a whole workspace
// must never be chosen, whatever the statistics say.
func PoolSettings() map[string]string {
	return map[string]string{
		"plan_cache_mode":                 "force_generic_plan",
		"enable_seqscan":                  "off",
		"enable_bitmapscan":               "off",
		"enable_sort":                     "off",
		"max_parallel_workers_per_gather": "0",
		"jit":                             "off",
	}
}

const (
	defaultRetention = 720 * time.Hour
	defaultTimeout   = 10 * time.Second
	cursorKeySize    = 32
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
	if c.Retention < 0 || c.Timeout < 0 {
		errs = append(errs, errors.New("readapi: Config.Retention and Config.Timeout are not below 0"))
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.Requests == nil {
		c.Requests = noRequestLog{}
	}
	return c, errors.Join(errs...)
}

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.HasSuffix(s, "/")
}

type noRequestLog struct{}

func (noRequestLog) Record(*requestlog.Record) {}

// API answers requests; it is an http.Handler for a server made by NewServer.
type API struct {
	cfg      Config
	routes   *routes
	cursors  *sealer
	tags     *tagger
	versions *gather[versionQuestion]
	rows     map[string]*gather[rowQuestion] // by table
	document []byte
	codecs   *codecs
	pages    *pageCache
	keys     keyFinder
	measures *measures
}

// New makes an API. Nothing that it starts outlives a request by more than its
// timeout. The error says everything that is wrong with cfg.
func New(cfg Config) (*API, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	table := newRoutes()
	document, err := describeAPI(table, Description{Brand: cfg.Brand, BaseURL: cfg.BaseURL, DocsURL: cfg.DocsURL})
	if err != nil {
		return nil, err
	}
	cursors, err := newSealer(cfg.CursorKey)
	if err != nil {
		return nil, err
	}
	codecs, err := newCodecs()
	if err != nil {
		return nil, err
	}
	measures, err := newMeasures(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	rows := map[string]*gather[rowQuestion]{}
	for _, r := range table.list {
		if r.shape == shapeOne && rows[r.resource.table] == nil {
			rows[r.resource.table] = newRowReader(cfg.Pool, cfg.Timeout)
		}
	}
	return &API{
		cfg:      cfg,
		routes:   table,
		cursors:  cursors,
		tags:     newTagger(cfg.CursorKey, document),
		versions: newVersions(cfg.Pool, cfg.Timeout),
		rows:     rows,
		document: document,
		codecs:   codecs,
		pages:    newPageCache(max(0, cfg.CacheBytes)),
		keys:     keyFinder{format: cfg.Format, brand: cfg.Brand.KeyPrefix()},
		measures: measures,
	}, nil
}

var _ http.Handler = (*API)(nil)
