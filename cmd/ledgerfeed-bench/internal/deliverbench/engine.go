package deliverbench

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// engine is the delivery engine with the database that it works on.
type engine struct {
	*measure.Database
	settings policy.Settings
	store    *delivery.Store
	keyring  *keyring.Keyring
	counted  *statementCount // of the last start
	appended int             // events so far; the next ids follow from it
}

// prepare makes what the engine needs to reach receivers on this machine. Call
// removeFile at the end.
func (e *engine) prepare(r *receiver) (removeFile func(), err error) {
	file, err := os.CreateTemp("", "ledgerfeed-bench-*.pem")
	if err != nil {
		return nil, fmt.Errorf("cannot write the receivers' certificate: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("cannot write the receivers' certificate: %w", err)
	}
	removeFile = func() { _ = os.Remove(file.Name()) }
	e.settings = policy.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: file.Name()}
	if e.keyring, err = keyring.New("a key for benchmarks only"); err != nil {
		return removeFile, err
	}
	e.store, err = delivery.NewStore(delivery.StoreConfig{Pool: e.Pool, Keyring: e.keyring, Log: e.Log, Notify: e.Notifier.Notify, Settings: e.settings})
	return removeFile, err
}

// webhook makes a workspace with a webhook.
func (e *engine) webhook(ctx context.Context, workspaceID, address string) (*delivery.WithSecret, error) {
	if _, err := e.Log.Append(ctx, workload.Reversed(workspaceID, "first")); err != nil {
		return nil, err
	}
	return e.store.Create(ctx, workspaceID, address, []string{delivery.AllEvents})
}

// start runs the engine until stop is called.
func (e *engine) start(ctx context.Context) (stop func() error, err error) {
	cfg, err := pg.ParseConfig(e.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to deliver: %w", err)
	}
	e.counted = &statementCount{}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 8, e.counted
	for name, value := range dispatch.PoolSettings() {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to deliver: %w", err)
	}
	running, err := dispatch.New(dispatch.Config{
		Pool: pool, Keyring: e.keyring, Notifier: e.Notifier, Clock: time.Now, Logger: measure.NoLogger(), Settings: e.settings, Bound: inFlight,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	working, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- running.Run(working) }()
	return func() error {
		cancel()
		err := <-ended
		pool.Close()
		return err
	}, nil
}

// statementCount counts statements.
type statementCount struct{ n atomic.Int64 }

func (t *statementCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (*statementCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// appendEvents appends n events to a workspace.
func (e *engine) appendEvents(ctx context.Context, workspaceID string, n int) error {
	const batch = 500
	for from := 0; from < n; from += batch {
		var drafts []domain.Draft
		for i := from; i < min(n, from+batch); i++ {
			drafts = append(drafts, workload.Reversed(workspaceID, fmt.Sprintf("evt_%07d", e.appended+i)))
		}
		if _, err := e.Log.Append(ctx, drafts...); err != nil {
			return err
		}
	}
	e.appended += n
	return nil
}
