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

// bench is a database with a dispatcher that can be started.
type bench struct {
	*measure.Database
	settings policy.Settings
	store    *delivery.Store
	keyring  *keyring.Keyring
	counted  *statementCount // of the last start
	appended int             // events so far; the next ids follow from it
}

// encryptionKey encrypts the webhooks' secrets.
const encryptionKey = "a key for benchmarks only"

// prepare makes what the dispatcher needs to reach receivers on this machine. Call
// removeFile at the end.
func (b *bench) prepare(r *receiver) (removeFile func(), err error) {
	file, err := os.CreateTemp("", "ledgerfeed-bench-*.pem")
	if err != nil {
		return nil, fmt.Errorf("cannot write the receivers' certificate: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("cannot write the receivers' certificate: %w", err)
	}
	removeFile = func() { _ = os.Remove(file.Name()) }
	b.settings = policy.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: file.Name()}
	if b.keyring, err = keyring.New(encryptionKey); err != nil {
		return removeFile, err
	}
	b.store, err = delivery.NewStore(delivery.StoreConfig{Pool: b.Pool, Keyring: b.keyring, Log: b.Log, Notify: b.Notifier.Notify, Settings: b.settings})
	return removeFile, err
}

// webhook makes a workspace with a webhook.
func (b *bench) webhook(ctx context.Context, workspaceID, address string) (*delivery.WithSecret, error) {
	if _, err := b.Log.Append(ctx, workload.Reversed(workspaceID, "first")); err != nil {
		return nil, err
	}
	return b.store.Create(ctx, workspaceID, delivery.Definition{URL: address, Events: []string{delivery.AllEvents}})
}

// start runs the dispatcher until stop is called.
func (b *bench) start(ctx context.Context) (stop func() error, err error) {
	cfg, err := pg.ParseConfig(b.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to deliver: %w", err)
	}
	b.counted = &statementCount{}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 8, b.counted
	for name, value := range dispatch.PoolSettings() {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to deliver: %w", err)
	}
	running, err := dispatch.New(dispatch.Config{
		Pool: pool, Keyring: b.keyring, Notifier: b.Notifier, Clock: time.Now, Logger: measure.NoLogger(), Settings: b.settings, Bound: inFlight,
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
func (b *bench) appendEvents(ctx context.Context, workspaceID string, n int) error {
	const batch = 500
	for from := 0; from < n; from += batch {
		var drafts []domain.Draft
		for i := from; i < min(n, from+batch); i++ {
			drafts = append(drafts, workload.Reversed(workspaceID, fmt.Sprintf("evt_%07d", b.appended+i)))
		}
		if _, err := b.Log.Append(ctx, drafts...); err != nil {
			return err
		}
	}
	b.appended += n
	return nil
}
