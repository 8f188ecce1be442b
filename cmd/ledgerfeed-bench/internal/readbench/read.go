// Package readbench measures the read API over loopback, callers included.
package readbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

// Benchmark is ledgerfeed-bench read.
func Benchmark(o *measure.Options) measure.Benchmark {
	r := &reader{}
	return measure.Benchmark{
		Name: "read", Short: "The read API", Parts: []measure.Part{
			{Name: "pages", Measure: r.pages}, {Name: "depths", Measure: r.depths}, {Name: "small", Measure: r.small},
			{Name: "checks", Measure: r.checks}, {Name: "unchanged", Measure: r.unchanged}, {Name: "memory", Measure: r.memory},
			{Name: "visible", Measure: r.visible}, {Name: "checkpoints", Measure: r.checkpoints},
			{Name: "waits", Measure: func(ctx context.Context) error { return waits(ctx, r) }},
			{Name: "flood", Measure: r.flood}, {Name: "whole", Measure: r.whole},
			{Name: "totals", Measure: r.totals},
		},
		SetUp: func(ctx context.Context, work func(context.Context) error) error {
			return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
				r.Database = db
				if err := r.prepare(ctx); err != nil {
					return err
				}
				return measure.ServingHeap(ctx, work)
			})
		},
	}
}

// pages compares a page of 50 invoices without the cache with the bare statement.
func (r *reader) pages(ctx context.Context) error {
	target := r.on(r.uncached, invoices)
	rate, err := api.Saturate(ctx, r.Options, target)
	if err != nil {
		return err
	}
	bare, bareIs, err := r.bareSelect(ctx, target)
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{
		Name: "a page of 50 invoices, 16 connections, without the cache", Value: rate, Unit: "/s",
		Limit: bare, LimitIs: bareIs,
	}.RatioAtLeast(0.55))
	times, err := api.AtRate(ctx, r.Options, target, rate/2)
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "    at half of that rate, p99", Value: measure.Quantile(times, 0.99), Unit: "ms"}.Below(15))
	recorded, err := api.Saturate(ctx, r.Options, r.on(r.logged, invoices))
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{
		Name: "    with every request in the request log", Value: recorded, Unit: "/s",
		Limit: bare, LimitIs: bareIs,
	})
	return nil
}

// depths compares pages near the start and far from it, in a small and a large
// workspace.
func (r *reader) depths(ctx context.Context) error {
	const limit, depth = 10, 1000
	if err := r.prepareWide(ctx); err != nil {
		return err
	}
	for _, w := range []struct {
		key  string
		rows int
	}{{r.key, narrowRows}, {r.wideKey, r.wide}} {
		first := api.Request{Host: r.uncached.Address, Path: fmt.Sprintf(invoices+"?limit=%d", limit), Key: w.key}
		cursor, err := r.uncached.CursorAfter(ctx, first, depth-1)
		if err != nil {
			return err
		}
		far := first
		far.Path += "&cursor=" + cursor
		near, err := api.Saturate(ctx, r.Options, first)
		if err != nil {
			return err
		}
		rate, err := api.Saturate(ctx, r.Options, far)
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{
			Name: fmt.Sprintf("page 1,000 of %d, of %s invoices", limit, measure.Number(float64(w.rows))), Value: rate, Unit: "/s",
			Limit: near, LimitIs: "page 1",
		}.RatioWithin(0.2))
	}
	return nil
}

// small measures short responses, each against its own statement.
func (r *reader) small(ctx context.Context) error {
	poll := r.on(r.uncached, "/v1/events?limit=100")
	end, err := r.uncached.CursorAfter(ctx, poll, 10)
	if err != nil {
		return err
	}
	poll.Path += "&cursor=" + end
	for _, m := range []struct {
		name   string
		req    api.Request
		target float64
	}{
		{"one invoice by its id", r.on(r.uncached, invoices+"/in_00000777"), 0.30},
		{"a poll of /v1/events that has caught up", poll, 0.22},
	} {
		rate, err := api.Saturate(ctx, r.Options, m.req)
		if err != nil {
			return err
		}
		bare, bareIs, err := r.bareSelect(ctx, m.req)
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{Name: m.name, Value: rate, Unit: "/s", Limit: bare, LimitIs: bareIs}.RatioAtLeast(m.target))
	}
	return nil
}

// checks measures what every request passes besides the database and the network:
// /v1/me is answered from the key alone.
func (r *reader) checks(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.uncached.Address+"/v1/me", http.NoBody)
	if err != nil {
		return fmt.Errorf("cannot request /v1/me: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.RemoteAddr = "127.0.0.1:50000"
	n, took, _, err := measure.Repeat(ctx, 1, r.Duration(api.LoadTime), func(context.Context, int, int) error {
		w := discarded{header: http.Header{}}
		r.uncached.Handler.ServeHTTP(&w, req)
		if w.status != http.StatusOK {
			return fmt.Errorf("/v1/me answered %d", w.status)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "the whole chain of checks, log line included, one caller", Value: took.Seconds() * 1e6 / float64(n), Unit: "µs"}.Below(12))
	return nil
}

// discarded is a response that is dropped.
type discarded struct {
	header http.Header
	status int
}

func (u *discarded) Header() http.Header         { return u.header }
func (u *discarded) WriteHeader(status int)      { u.status = status }
func (u *discarded) Write(b []byte) (int, error) { return len(b), nil }

// unchanged measures requests for what has not changed, against the same without
// the cache and against a handler that does nothing.
func (r *reader) unchanged(ctx context.Context) error {
	cached, uncached := r.on(r.cached, invoices), r.on(r.uncached, invoices)
	tag, err := r.cached.ETag(ctx, cached)
	if err != nil {
		return err
	}
	conditional := cached
	conditional.Conditional, conditional.ETag = true, tag
	bare := conditional
	if bare.Host, err = api.Listen(ctx, &http.Server{Handler: http.HandlerFunc(notModified), ReadHeaderTimeout: time.Minute}); err != nil {
		return err
	}
	cachedGzip, uncachedGzip := cached, uncached
	cachedGzip.Gzip, uncachedGzip.Gzip = true, true
	const bareIs = "a handler of net/http that only answers 304"
	for _, m := range []struct {
		name    string
		req     api.Request
		limit   api.Request
		limitIs string
		target  float64 // 0: none
	}{
		{"an unchanged page of 50 (304)", conditional, uncached, "the page without the cache", 6},
		{"    the same", conditional, bare, bareIs, 0},
		{"    /v1/me, which needs no query", r.on(r.cached, "/v1/me"), bare, bareIs, 0},
		{"a page of 50 from the cache", cached, uncached, "the page without the cache", 3},
		{"    the same with gzip, as most clients request it", cachedGzip, uncachedGzip, "the page without the cache, with gzip", 3},
	} {
		rate, err := api.Saturate(ctx, r.Options, m.req)
		if err != nil {
			return err
		}
		limit, err := api.Saturate(ctx, r.Options, m.limit)
		if err != nil {
			return err
		}
		f := measure.Figure{Name: m.name, Value: rate, Unit: "/s", Limit: limit, LimitIs: m.limitIs}
		if m.target > 0 {
			f = f.RatioAtLeast(m.target)
		}
		r.Report.Add(f)
	}
	return nil
}

func notModified(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }

// checkpoints compares requests for a checkpoint with requests that read nothing: as they are
// answered in production, where a checkpoint that has not changed is not signed again, and with
// each signed.
func (r *reader) checkpoints(ctx context.Context) error {
	const checkpoint = "/v1/events/checkpoint"
	for _, m := range []struct {
		name string
		of   *api.Server
		want float64
	}{{"a checkpoint, 16 connections", r.cached, 0.5}, {"    signed each time", r.uncached, 0}} {
		rate, err := api.Saturate(ctx, r.Options, r.on(m.of, checkpoint))
		if err != nil {
			return err
		}
		me, err := api.Saturate(ctx, r.Options, r.on(m.of, "/v1/me"))
		if err != nil {
			return err
		}
		f := measure.Figure{Name: m.name, Value: rate, Unit: "/s", Limit: me, LimitIs: "/v1/me"}
		if m.want > 0 {
			f = f.RatioAtLeast(m.want)
		}
		r.Report.Add(f)
	}
	return nil
}

// memoryRequests is after how many requests memory must not have grown.
const memoryRequests = 2_000_000

// memory sends requests of all kinds and compares the memory in use after the
// first tenth with that at the end.
func (r *reader) memory(ctx context.Context) error {
	total := r.Size(memoryRequests, 50_000)
	r.Say("sending %d requests to see whether memory stays flat", total)
	unknown := r.on(r.logged, "/v1/me")
	unknown.Key = "not-a-key"
	var (
		sets   [][]*api.Caller
		hangUp []func()
	)
	defer func() {
		for _, end := range hangUp {
			end()
		}
	}()
	for _, q := range []api.Request{
		r.on(r.cached, "/v1/me"), r.on(r.cached, invoices+"?limit=5"), r.on(r.uncached, invoices+"/in_00000777"),
		r.on(r.uncached, invoices+"?limit=5"), r.on(r.logged, invoices+"/nobody"), r.on(r.logged, "/v1/nothing"), unknown,
	} {
		callers, end, err := api.DialAll(ctx, q)
		if err != nil {
			return err
		}
		sets, hangUp = append(sets, callers), append(hangUp, end)
	}
	send := func(count int) (float64, error) {
		var sent atomic.Int64
		enough := errors.New("enough")
		_, _, _, err := measure.Repeat(ctx, api.Connections, time.Hour, func(ctx context.Context, i, _ int) error {
			n := int(sent.Add(1))
			if n > count {
				return enough
			}
			if _, err := sets[n%len(sets)][i].Call(); err != nil {
				return err
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, enough) {
			return 0, err
		}
		return measure.MiB(measure.LiveHeap()), nil
	}
	early, err := send(total / 10)
	if err != nil {
		return err
	}
	late, err := send(total - total/10)
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{
		Name: fmt.Sprintf("memory in use after %s requests of all kinds", measure.Number(float64(total))), Value: late, Unit: "MiB",
		Limit: early, LimitIs: "after the first tenth of them",
	}.RatioAtMost(1.1))
	return nil
}
