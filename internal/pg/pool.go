package pg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of a pool.
type Options struct {
	// MaxConns is the most connections; 0 leaves pgx's default.
	MaxConns int32

	// ReadBuffer is the size of each connection's read buffer in bytes; 0
	// leaves the default. Pages of rows want 32 KiB.
	ReadBuffer int

	// Settings are run-time parameters of every connection.
	Settings map[string]string

	// CancelStatements ends the statement of a context that ends on the server, too, and keeps
	// its connection. Otherwise only the connection is closed, and the server goes on until it
	// has something to send. It holds for the pool's own methods.
	CancelStatements bool

	// Tracer is called at each statement; nil: none is.
	Tracer pgx.QueryTracer

	// ConnectTimeout bounds the time to open a connection; 0: that of the URL.
	ConnectTimeout time.Duration

	// Later lets Open succeed although the database does not answer now.
	Later bool

	// Prepare looks at a connection each time before it is used; nil: one to a server that
	// takes no writes is replaced after a second. What it returns means what it does in
	// pgxpool.Config.PrepareConn.
	Prepare func(context.Context, *pgx.Conn) (good bool, err error)
}

// cancelTimeout is how long a connection waits for the end of a statement that it
// has cancelled before it is closed.
const cancelTimeout = time.Second

// Pool has the connections of a process to a database. Its users share them: see
// [Pool.NewShare]. Callers without a share use the pool's own methods, which take connections
// that are not reserved. It is safe for concurrent use.
type Pool struct {
	*Share

	conns   *pgxpool.Pool
	places  *places
	tracer  pgx.QueryTracer       // of statements; nil: none
	waits   pgxpool.AcquireTracer // is told of callers that wait; nil: nobody is
	pooled  bool                  // see IsPooled
	local   map[string]string     // settings that each transaction through a pooler needs
	planned bool                  // the URL says how statements are planned
}

// planSetting is the one setting that the URL decides for everybody: Citus cannot plan all statements
// with the mode that is best for a plain database.
const planSetting = "plan_cache_mode"

// allowed returns the settings that the URL leaves to its users.
func allowed(settings map[string]string, planned bool) map[string]string {
	if !planned {
		return settings
	}
	rest := maps.Clone(settings)
	delete(rest, planSetting)
	return rest
}

// Close closes the connections, and returns when all are given back.
func (p *Pool) Close() {
	p.places.close()
	p.conns.Close()
}

// Reset closes all connections; those in use, when they are given back.
func (p *Pool) Reset() { p.conns.Reset() }

// Stat returns how many connections there are.
func (p *Pool) Stat() *pgxpool.Stat { return p.conns.Stat() }

// Config returns the configuration for a pool of pgx like this one.
func (p *Pool) Config() *pgxpool.Config {
	cfg := p.conns.Config()
	cfg.MaxConns = int32(p.places.most)
	cfg.ConnConfig.Tracer, cfg.BeforeConnect = p.tracer, nil
	return cfg
}

// AnswerTimeout is how long opening a connection may take, and a question that the server answers at
// once.
func (p *Pool) AnswerTimeout() time.Duration { return p.conns.Config().ConnConfig.ConnectTimeout }

// Open makes a pool and checks that the database answers, unless Options.Later.
func Open(ctx context.Context, url string, o Options) (*Pool, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	if o.ReadBuffer > 0 {
		cfg.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(bufio.NewReaderSize(r, o.ReadBuffer), w)
		}
	}
	cfg.PingTimeout = pingTimeout
	if o.ConnectTimeout > 0 {
		cfg.ConnConfig.ConnectTimeout = o.ConnectTimeout
	}
	for name, value := range SilentSettings(idleTimeout) {
		if cfg.ConnConfig.RuntimeParams[name] == "" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	cfg.ConnConfig.BuildContextWatcherHandler = newWatcher
	planned := cfg.ConnConfig.RuntimeParams[planSetting] != ""
	maps.Copy(cfg.ConnConfig.RuntimeParams, allowed(o.Settings, planned))
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "ledgerfeed"
	}
	withoutTimeouts(cfg.ConnConfig)
	local, err := settle(cfg.ConnConfig)
	if err != nil {
		return nil, err
	}
	dropUseless(cfg, o.Prepare)
	p := &Pool{places: newPlaces(int(cfg.MaxConns)), planned: planned, pooled: IsPooled(cfg.ConnConfig), local: local, tracer: o.Tracer}
	p.Share = p.NewShare(ShareOptions{Most: int(cfg.MaxConns), CancelStatements: o.CancelStatements})
	p.waits, _ = o.Tracer.(pgxpool.AcquireTracer)
	// A connection that is being closed may take seconds, in which its place is another's.
	cfg.MaxConns *= 2
	cfg.ConnConfig.Tracer = released{}
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Tracer = o.Tracer
		return nil
	}
	if p.conns, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if o.Later {
		return p, nil
	}
	if err := checkSettings(ctx, p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// pingTimeout bounds the question that a connection is asked before it is used, if it
// was idle for a second. One that went silent does not answer, and is replaced.
const pingTimeout = 2 * time.Second

// idleTimeout is how long a transaction may wait for this program before the server ends it.
const idleTimeout = 30 * time.Second
