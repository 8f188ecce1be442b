package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// readTime is how long each way of reading is measured.
const readTime = 6 * time.Second

// readConnections is how many callers read side by side.
const readConnections = 16

// reads sets r up for its parts.
func (o *Options) reads(r *reading) func(context.Context, func(context.Context) error) error {
	return func(ctx context.Context, work func(context.Context) error) error {
		return withSetting(ctx, o, func(ctx context.Context, s *setting) error {
			r.setting = s
			if err := r.prepare(ctx); err != nil {
				return err
			}
			return asServed(ctx, work)
		})
	}
}

// The workspaces that are read.
const (
	narrowWorkspace = "narrow" // 10,000 invoices
	wideWorkspace   = "wide"   // 1,000,000
)

// reading measures the read API over loopback, callers included.
type reading struct {
	*setting
	served       *served // as it runs
	plain        *served // without the cache of answers
	recorded     *served // the same, every request recorded for the console
	key          string  // of the narrow workspace
	narrow, wide int     // invoices
}

func (r *reading) prepare(ctx context.Context) error {
	r.narrow, r.wide = 10_000, r.size(1_000_000, 20_000)
	r.say("making workspaces with %d and %d invoices", r.narrow, r.wide)
	for workspaceID, rows := range map[string]int{narrowWorkspace: r.narrow, wideWorkspace: r.wide} {
		if err := r.makeInvoices(ctx, workspaceID, rows); err != nil {
			return err
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	var err error
	if r.served, err = r.serve(ctx, serving{cacheBytes: readapi.DefaultCacheBytes}); err != nil {
		return err
	}
	if r.plain, err = r.serve(ctx, serving{cacheBytes: noCache}); err != nil {
		return err
	}
	if r.recorded, err = r.serve(ctx, serving{cacheBytes: noCache, recorded: true}); err != nil {
		return err
	}
	r.key, err = r.served.key(ctx, narrowWorkspace)
	return err
}

// on is a request to one of the two.
func (r *reading) on(s *served, path string) request {
	return request{host: s.address, path: path, key: r.key}
}

// makeInvoices writes as many read rows as are wanted, each the row of a real
// invoice under another id.
func (r *reading) makeInvoices(ctx context.Context, workspaceID string, rows int) error {
	d, err := domain.NewDraft(workspaceID, "invoice.recorded", []byte(`{"invoice_id":"in_SAMPLE","number":"INV-000001","client_id":"cl_000001",
		"contractor_id":"co_000001","period":"2026-10","plan_name":"Monthly retainer","gross_amount":"4200.00","currency":"EUR",
		"delivered_value":"4150.00","recognized_revenue":"4100.00","billable_hours":41.5,"client_billing_status":"ready_to_send",
		"payout_amount":"2100.00","margin_amount":"2100.00","margin_percent":50,"margin_note":"as agreed for the year"}`))
	if err != nil {
		return fmt.Errorf("make a sample invoice: %w", err)
	}
	issued, err := domain.NewDraft(workspaceID, "invoice.issued", []byte(`{"invoice_id":"in_SAMPLE","invoice_number":"INV-000001","amount":"4200.00"}`))
	if err != nil {
		return fmt.Errorf("make a sample invoice: %w", err)
	}
	if _, err := r.log.Append(ctx, d, issued); err != nil {
		return err
	}
	state := domain.NewState()
	if err := r.log.Walk(ctx, workspaceID, 0, func(e *domain.Entry) error { state.Apply(e); return nil }); err != nil {
		return err
	}
	sample := state.Invoices.Get("in_SAMPLE")
	f := sample.Fragments()
	_, err = r.pool.Exec(ctx, `
		INSERT INTO invoice (workspace_id, id, position, shown, client_id, contractor_id, period, status, type, base, pay, margin)
		SELECT $1, 'in_' || lpad(g::text, 8, '0'), g, true, 'cl_' || g % 50, 'co_' || g % 20, '2026-10',
		       (ARRAY['not_ready','ready_to_send','sent','paid'])[1 + g % 4], 'invoice',
		       replace($2, 'in_SAMPLE', 'in_' || lpad(g::text, 8, '0')), $3, $4
		  FROM generate_series(1, $5::integer) AS g`, workspaceID, f.Base, f.Pay, f.Margin, rows)
	if err != nil {
		return fmt.Errorf("make invoices: %w", err)
	}
	if _, err := r.pool.Exec(ctx, `UPDATE log_checkpoint SET position = 2 WHERE workspace_id = $1`, workspaceID); err != nil {
		return fmt.Errorf("make invoices: %w", err)
	}
	return nil
}

const invoices = "/v1/invoices"

// pages compares a page of 50 invoices, worked out anew each time, with the
// bare statement and with a handler as one would write it first.
func (r *reading) pages(ctx context.Context) error {
	target := r.on(r.plain, invoices)
	rate, err := r.hammerHTTP(ctx, target)
	if err != nil {
		return err
	}
	bare, bareIs, err := r.bareSelect(ctx, target)
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: "a page of 50 invoices, 16 connections, no answers kept", Value: rate, Unit: "/s",
		Limit: bare, LimitIs: bareIs,
	}.ratioAtLeast(0.55))
	times, err := r.evenly(ctx, target, rate/2)
	if err != nil {
		return err
	}
	r.Report.add(Figure{Name: "    at half of that rate, p99", Value: quantile(times, 0.99), Unit: "ms"}.below(15))
	recorded, err := r.hammerHTTP(ctx, r.on(r.recorded, invoices))
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: "    with every request recorded for the console, too", Value: recorded, Unit: "/s",
		Limit: bare, LimitIs: bareIs,
	})
	typed, err := r.typedRate(ctx, r.key)
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: "    against typed columns, structs and encoding/json", Value: rate, Unit: "/s",
		Limit: typed, LimitIs: "the same page made that way",
	}.ratioAtLeast(3.5))
	return nil
}

// evenly sends requests at a rate over the usual connections. Times count from
// the moment when a request was due, so that one that waits for a slow one
// before it is slow too.
func (r *reading) evenly(ctx context.Context, target request, rate float64) ([]time.Duration, error) {
	callers, hangUp, err := dialAll(ctx, target)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	pause := time.Duration(readConnections / rate * float64(time.Second))
	began := time.Now()
	var (
		mu    sync.Mutex
		times []time.Duration
	)
	_, _, _, err = hammer(ctx, readConnections, r.duration(readTime), func(ctx context.Context, i, turn int) error {
		due := began.Add(pause*time.Duration(turn) + pause*time.Duration(i)/readConnections)
		if wait := time.Until(due); wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
			}
		}
		if err := callers[i].expect(http.StatusOK); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Since(due))
		return nil
	})
	return times, err
}

// depths compares pages near the start and far from it, in a small and a large
// workspace.
func (r *reading) depths(ctx context.Context) error {
	const limit, depth = 10, 1000
	for _, w := range []struct {
		id   string
		rows int
	}{{narrowWorkspace, r.narrow}, {wideWorkspace, r.wide}} {
		key, err := r.served.key(ctx, w.id)
		if err != nil {
			return err
		}
		first := request{host: r.plain.address, path: fmt.Sprintf(invoices+"?limit=%d", limit), key: key}
		cursor, err := r.plain.cursorAt(ctx, first, depth-1)
		if err != nil {
			return err
		}
		far := first
		far.path += "&cursor=" + cursor
		near, err := r.hammerHTTP(ctx, first)
		if err != nil {
			return err
		}
		rate, err := r.hammerHTTP(ctx, far)
		if err != nil {
			return err
		}
		r.Report.add(Figure{
			Name: fmt.Sprintf("page 1,000 of %d, of %s invoices", limit, number(float64(w.rows))), Value: rate, Unit: "/s",
			Limit: near, LimitIs: "page 1",
		}.ratioWithin(0.2))
	}
	return nil
}

// small measures answers that are short, each against its own statement.
func (r *reading) small(ctx context.Context) error {
	poll := r.on(r.plain, "/v1/events?limit=100")
	end, err := r.plain.cursorAt(ctx, poll, 10)
	if err != nil {
		return err
	}
	poll.path += "&cursor=" + end
	for _, m := range []struct {
		name   string
		req    request
		target float64
	}{
		{"one invoice by its id", r.on(r.plain, invoices+"/in_00000777"), 0.30},
		{"a poll of /v1/events that has caught up", poll, 0.22},
	} {
		rate, err := r.hammerHTTP(ctx, m.req)
		if err != nil {
			return err
		}
		bare, bareIs, err := r.bareSelect(ctx, m.req)
		if err != nil {
			return err
		}
		r.Report.add(Figure{Name: m.name, Value: rate, Unit: "/s", Limit: bare, LimitIs: bareIs}.ratioAtLeast(m.target))
	}
	return nil
}

// checks measures all that is done to a request but reading and sending: the
// answer to /v1/me comes from the key alone. No network is in it.
func (r *reading) checks(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.plain.address+"/v1/me", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for /v1/me: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.RemoteAddr = "127.0.0.1:50000"
	n, took, _, err := hammer(ctx, 1, r.duration(readTime), func(context.Context, int, int) error {
		w := unsent{header: http.Header{}}
		r.plain.api.ServeHTTP(&w, req)
		if w.status != http.StatusOK {
			return fmt.Errorf("/v1/me answered %d", w.status)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Report.add(Figure{Name: "the whole chain of checks, log line included, one caller", Value: took.Seconds() * 1e6 / float64(n), Unit: "µs"}.below(12))
	return nil
}

// unsent is an answer that goes nowhere.
type unsent struct {
	header http.Header
	status int
}

func (u *unsent) Header() http.Header         { return u.header }
func (u *unsent) WriteHeader(status int)      { u.status = status }
func (u *unsent) Write(b []byte) (int, error) { return len(b), nil }

// unchanged measures what a caller pays who asks again for what has not changed,
// and what even nothing at all costs on the way.
func (r *reading) unchanged(ctx context.Context) error {
	kept, anew := r.on(r.served, invoices), r.on(r.plain, invoices)
	tag, err := r.served.tag(ctx, kept)
	if err != nil {
		return err
	}
	tagged := kept
	tagged.tagged, tagged.tag = true, tag
	bare := tagged
	if bare.host, err = listen(ctx, &http.Server{Handler: http.HandlerFunc(notModified), ReadHeaderTimeout: time.Minute}); err != nil {
		return err
	}
	zipped, zippedAnew := kept, anew
	zipped.gzip, zippedAnew.gzip = true, true
	const bareIs = "a handler of net/http that does nothing but answer 304"
	for _, m := range []struct {
		name    string
		req     request
		limit   request
		limitIs string
		target  float64 // 0: none
	}{
		{"an unchanged page of 50 (304)", tagged, anew, "the page worked out anew", 6},
		{"    the same", tagged, bare, bareIs, 0},
		{"    /v1/me, for which the database is not asked", r.on(r.served, "/v1/me"), bare, bareIs, 0},
		{"a hot page of 50, kept", kept, anew, "the page worked out anew", 3},
		{"    the same with gzip, as most clients ask for it", zipped, zippedAnew, "the page worked out anew, with gzip", 3},
	} {
		rate, err := r.hammerHTTP(ctx, m.req)
		if err != nil {
			return err
		}
		limit, err := r.hammerHTTP(ctx, m.limit)
		if err != nil {
			return err
		}
		f := Figure{Name: m.name, Value: rate, Unit: "/s", Limit: limit, LimitIs: m.limitIs}
		if m.target > 0 {
			f = f.ratioAtLeast(m.target)
		}
		r.Report.add(f)
	}
	return nil
}

func notModified(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }

// steadyRequests are how many requests must not make the process grow.
const steadyRequests = 5_000_000

// steady sends requests of all kinds and compares the memory in use early with
// that at the end.
func (r *reading) steady(ctx context.Context) error {
	total := r.size(steadyRequests, 50_000)
	r.say("sending %d requests to see whether memory stays flat", total)
	unknown := r.on(r.recorded, "/v1/me")
	unknown.key = "not-a-key"
	var (
		sets   [][]*caller
		hangUp []func()
	)
	defer func() {
		for _, end := range hangUp {
			end()
		}
	}()
	for _, q := range []request{
		r.on(r.served, "/v1/me"), r.on(r.served, invoices+"?limit=5"), r.on(r.plain, invoices+"/in_00000777"),
		r.on(r.plain, invoices+"?limit=5"), r.on(r.recorded, invoices+"/nobody"), r.on(r.recorded, "/v1/nothing"), unknown,
	} {
		callers, end, err := dialAll(ctx, q)
		if err != nil {
			return err
		}
		sets, hangUp = append(sets, callers), append(hangUp, end)
	}
	send := func(count int) (float64, error) {
		var sent atomic.Int64
		enough := errors.New("enough")
		_, _, _, err := hammer(ctx, readConnections, time.Hour, func(ctx context.Context, i, _ int) error {
			n := int(sent.Add(1))
			if n > count {
				return enough
			}
			if _, err := sets[n%len(sets)][i].ask(); err != nil {
				return err
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, enough) {
			return 0, err
		}
		return liveHeap(), nil
	}
	early, err := send(total / 10)
	if err != nil {
		return err
	}
	late, err := send(total - total/10)
	if err != nil {
		return err
	}
	r.Report.add(Figure{
		Name: fmt.Sprintf("memory in use after %s requests of all kinds", number(float64(total))), Value: late, Unit: "MiB",
		Limit: early, LimitIs: "after the first tenth of them",
	}.ratioAtMost(1.1))
	return nil
}

// liveHeap is the memory in use, in MiB.
func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
