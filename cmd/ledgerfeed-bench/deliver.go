package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

const (
	deliverWebhooks = 20 // of as many workspaces
	deliverEach     = 3_000
	deliverBound    = 10 // messages of a webhook under way
)

// deliverBacklog measures the throughput.
func deliverBacklog(ctx context.Context, o *Options) error {
	return withReceiver(ctx, o, (*delivering).throughput)
}

// deliverPaced measures how soon messages arrive.
func deliverPaced(ctx context.Context, o *Options) error {
	for _, rate := range []int{100, 500} {
		if err := withSetting(ctx, o, func(ctx context.Context, s *setting) error {
			return (&delivering{setting: s}).pace(ctx, rate)
		}); err != nil {
			return err
		}
	}
	return nil
}

// withReceiver runs work in a fresh database, with a receiver that answers at
// once.
func withReceiver(ctx context.Context, o *Options, work func(*delivering, context.Context, *receiver) error) error {
	return withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		d := &delivering{setting: s}
		r := newReceiver(http1)
		defer r.Close()
		cleanUp, err := d.prepare(r)
		if err != nil {
			return err
		}
		defer cleanUp()
		return work(d, ctx, r)
	})
}

// delivering measures an engine: receivers are on loopback, over TLS, and they and
// the database on the same machine.
type delivering struct {
	*setting
	settings delivery.Settings
	store    *delivery.Store
	keyring  *delivery.Keyring
	counted  *statementCount
	appended int // events so far, which makes their ids
}

// receiver is a receiver on loopback that answers at once.
type receiver struct {
	*httptest.Server
	speaks  protocol
	taken   atomic.Int64
	seen    atomic.Int64                       // requests, answered or not
	arrived func(eventID string, at time.Time) // nil: nobody is told
	hang    <-chan struct{}                    // not nil: it never answers before this is closed
}

// protocol is what receivers speak.
type protocol string

// The protocols of receivers.
const (
	http1 protocol = "HTTP/1.1"
	http2 protocol = "HTTP/2"
)

func newReceiver(speaks protocol) *receiver {
	r := &receiver{speaks: speaks}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = nil
	r.EnableHTTP2 = speaks == http2
	r.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	r.StartTLS()
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if (r.speaks == http2) != (req.ProtoMajor == 2) {
		w.WriteHeader(http.StatusHTTPVersionNotSupported) // so that it never arrives, and nothing is measured
		return
	}
	r.seen.Add(1)
	if r.arrived != nil {
		r.arrived(req.Header.Get("SERVICE-Event-Id"), time.Now())
	}
	_, _ = io.Copy(io.Discard, req.Body)
	if r.hang != nil {
		select {
		case <-r.hang:
		case <-req.Context().Done():
		}
		return
	}
	r.taken.Add(1)
}

// prepare makes what an engine needs to reach receivers on this machine.
func (d *delivering) prepare(r *receiver) (cleanUp func(), err error) {
	file, err := os.CreateTemp("", "ledgerfeed-bench-*.pem")
	if err != nil {
		return nil, fmt.Errorf("keep the receivers' certificate: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("keep the receivers' certificate: %w", err)
	}
	cleanUp = func() { _ = os.Remove(file.Name()) }
	d.settings = delivery.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: file.Name()}
	if d.keyring, err = delivery.NewKeyring("a key for benchmarks only"); err != nil {
		return cleanUp, err
	}
	d.store, err = delivery.NewStore(delivery.StoreConfig{Pool: d.pool, Keyring: d.keyring, Log: d.log, Notify: d.notifier.Notify, Settings: d.settings})
	return cleanUp, err
}

// url is a receiver's address under the name in its certificate.
func (r *receiver) url() string { return r.URL + "/hook" }

// webhook makes a workspace with a webhook.
func (d *delivering) webhook(ctx context.Context, workspaceID, address string) (*delivery.WithSecret, error) {
	if _, err := d.log.Append(ctx, reversed(workspaceID, "first")); err != nil {
		return nil, err
	}
	return d.store.Create(ctx, workspaceID, address, []string{delivery.AllEvents})
}

// engine runs an engine beside until the returned function is called.
func (d *delivering) engine(ctx context.Context) (stop func() error, err error) {
	cfg, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, fmt.Errorf("connections to deliver: %w", err)
	}
	d.counted = &statementCount{}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 8, d.counted
	for name, value := range delivery.PoolSettings() {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connections to deliver: %w", err)
	}
	engine, err := delivery.New(delivery.Config{
		Pool: pool, Keyring: d.keyring, Notifier: d.notifier, Clock: time.Now, Logger: quiet(), Settings: d.settings, Bound: deliverBound,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()
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

// throughput measures a backlog, and the same messages in a bare loop.
func (d *delivering) throughput(ctx context.Context, r *receiver) error {
	each := d.size(deliverEach, 300)
	total := deliverWebhooks * each
	d.say("appending %d events for %d webhooks", total, deliverWebhooks)
	var (
		hook *delivery.WithSecret
		err  error
	)
	for i := range deliverWebhooks {
		if hook, err = d.webhook(ctx, workspaceName(i), r.url()); err != nil {
			return err
		}
		if err := d.appendEvents(ctx, workspaceName(i), each); err != nil {
			return err
		}
	}
	if err := d.passOver(ctx); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	bare, err := d.bareLoop(ctx, r, hook)
	if err != nil {
		return err
	}
	writes, err := d.rowWrites(ctx)
	if err != nil {
		return err
	}
	rate, err := d.drain(ctx, r, total)
	if err != nil {
		return err
	}
	after, err := d.rowWrites(ctx)
	if err != nil {
		return err
	}
	d.Report.add(Figure{
		Name: "deliver a backlog over TLS, 20 webhooks, all recorded", Value: rate, Unit: "/s",
		Limit: bare, LimitIs: "the same client in a bare loop, as many connections",
	}.ratioAtLeast(0.4))
	d.Report.add(Figure{Name: "    SQL statements for one delivery", Value: float64(d.counted.n.Load()) / float64(total), Unit: ""}.below(0.1))
	d.Report.add(Figure{Name: "    rows written for one delivery", Value: float64(after-writes) / float64(total), Unit: ""}.below(1.2))
	return nil
}

// drain starts an engine on a backlog of so many messages and stops it when the
// receiver has them: so many a second are delivered.
func (d *delivering) drain(ctx context.Context, r *receiver, total int) (rate float64, err error) {
	r.taken.Store(0)
	d.say("delivering %d messages", total)
	began := time.Now()
	stop, err := d.engine(ctx)
	if err != nil {
		return 0, err
	}
	if err := awaitCount(ctx, &r.taken, int64(total)); err != nil {
		return 0, errors.Join(err, stop())
	}
	rate = perSecond(total, time.Since(began))
	d.say("    %.0f a second", rate)
	return rate, stop()
}

func (d *delivering) appendEvents(ctx context.Context, workspaceID string, n int) error {
	const together = 500
	for from := 0; from < n; from += together {
		var drafts []domain.Draft
		for i := from; i < min(n, from+together); i++ {
			drafts = append(drafts, reversed(workspaceID, fmt.Sprintf("evt_%07d", d.appended+i)))
		}
		if _, err := d.log.Append(ctx, drafts...); err != nil {
			return err
		}
	}
	d.appended += n
	return nil
}

// bareLoop sends signed messages with the same client and nothing around it.
func (d *delivering) bareLoop(ctx context.Context, r *receiver, hook *delivery.WithSecret) (float64, error) {
	sender, err := delivery.NewSender(delivery.SenderConfig{Settings: d.settings, Clock: time.Now})
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	draft := reversed(hook.WorkspaceID, "evt_0000000")
	draft.CreatedAt = time.Now()
	body := []byte(draft.PublicEvent())
	target, err := url.Parse(r.url())
	if err != nil {
		return 0, fmt.Errorf("the receiver's address: %w", err)
	}
	n, took, _, err := hammer(ctx, deliverWebhooks*deliverBound, d.duration(readTime), func(ctx context.Context, _, _ int) error {
		a := sender.Send(ctx, &delivery.Message{
			URL: target, WebhookID: hook.ID, EventID: draft.ID, Body: body, Secrets: []string{hook.Secret}, DeliveryID: draft.ID + "_" + hook.ID,
		})
		if !a.Success() {
			return fmt.Errorf("a bare message failed: %+v", a)
		}
		return nil
	})
	return perSecond(n, took), err
}

// rowWrites counts the rows written to the tables of webhooks so far. What a
// connection has written shows a while later, so it waits until the count
// stands still.
func (d *delivering) rowWrites(ctx context.Context) (int64, error) {
	const still = 4 // looks that agree
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	before := int64(-1)
	for same := 0; ; {
		var n int64
		err := d.pool.QueryRow(ctx, `
			SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables WHERE relname LIKE 'webhook%'`).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("count row writes: %w", err)
		}
		if same++; n != before {
			same, before = 0, n
		}
		if same == still {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func awaitCount(ctx context.Context, count *atomic.Int64, want int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
	for count.Load() < want {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return fmt.Errorf("%d of %d messages arrived within 5 minutes", count.Load(), want)
		case <-tick.C:
		}
	}
	return nil
}
