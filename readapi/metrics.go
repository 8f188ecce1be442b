package readapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/tracing"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// metrics are the API's metrics. Every label value comes from a fixed list, never from
// a caller.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	cached   *prometheus.CounterVec
	waits    *prometheus.CounterVec
	waited   prometheus.Histogram
	lists    *prometheus.HistogramVec
	listRows prometheus.Counter
	noPlace  *prometheus.CounterVec

	copyReads  prometheus.Counter
	passedOver *prometheus.CounterVec
}

// Label values: what requests wait for, and how a wait ends.
const (
	forChange   = "change"   // Prefer: wait
	forPosition = "position" // Log-Position-At-Least

	endedFound   = "found"   // the change or position has come
	endedTimeout = "timeout" // time ran out
	endedDrained = "drained" // the process is about to stop
	endedGone    = "gone"    // the caller has gone
	endedRefused = "refused" // too many requests wait already
)

func newMetrics(register prometheus.Registerer, pages *shares, places *answer.ListPlaces, waits *waits) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ledgerfeed_api_request_seconds", Help: "Time from the first check to the end of the answer, without what the request asked to wait (ledgerfeed_api_waited_seconds), by route and class of the status, such as 2xx.",
			Buckets:                     []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"route", "class"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_refused_total", Help: "Refused requests by reason.",
		}, []string{"reason"}),
		cached: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_cached_answers_total", Help: "Looks for an answer in the cache: current, outdated (there is one of an older version of the rows), none.",
		}, []string{"found"}),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_waits_total", Help: "Requests that waited, by what for (change: Prefer: wait; position: Log-Position-At-Least) and how it ended: found, timeout, drained, gone, refused (too many waited already).",
		}, []string{"for", "ended"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledgerfeed_api_waited_seconds", Help: "How long requests waited for a change of a list or for a log position; only those that waited.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30},
		}),
		lists: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ledgerfeed_api_whole_list_seconds", Help: "Time that whole lists took, by route and how they ended: whole, or broken. They are not in ledgerfeed_api_request_seconds, because their reader decides how long they take.",
			Buckets: []float64{0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600},
		}, []string{"route", "end"}),
		listRows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_api_whole_list_rows_total", Help: "Rows of whole lists.",
		}),
		noPlace: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_whole_lists_refused_total", Help: "Whole lists that were refused, by what was full: workspace (it reads as many as it may) or process.",
		}, []string{"full"}),
		copyReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_api_copy_reads_total", Help: "Requests that were answered with data of LEDGERFEED_READ_DATABASE_URL.",
		}),
		passedOver: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_api_copy_passed_over_total", Help: "Requests that were first read from LEDGERFEED_READ_DATABASE_URL and then answered from DATABASE_URL, by reason: behind (the request needs newer data), failed (the standby was lost, was too far behind, or ended the statement), no_proof (it did not find something, and only DATABASE_URL can prove that it does not exist).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{passedBehind, passedFailed, passedNoProof} {
		m.passedOver.WithLabelValues(reason)
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_api_waits", Help: "Requests that are waiting for a change of a list or for a log position.",
	}, func() float64 { return float64(waits.changes.Open() + waits.positions.Open()) })
	reading := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_api_whole_lists", Help: "Whole lists that are being read.",
	}, func() float64 { return float64(places.Used()) })
	waited := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "ledgerfeed_api_page_wait_seconds_total", Help: "How long requests waited because all connections that read pages were in use, including requests that gave up, and not because their workspace used its share.",
	}, func() float64 { return time.Duration(pages.waited.Load()).Seconds() })
	for _, full := range []answer.Full{answer.FullWorkspace, answer.FullProcess} {
		m.noPlace.WithLabelValues(fullLabel(full))
	}
	for _, found := range []string{"current", "outdated", "none"} {
		m.cached.WithLabelValues(found)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.refused, m.cached, m.waits, m.waited, waited, open, m.lists, m.listRows, m.noPlace, reading, m.copyReads, m.passedOver} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("readapi: register metrics: %w", err)
		}
	}
	return m, nil
}

// ended counts a wait that has ended.
func (m *metrics) ended(what, how string) { m.waits.WithLabelValues(what, how).Inc() }

func (m *metrics) observe(ctx context.Context, r *requestlog.Record) {
	route := r.Route
	if route == "" {
		route = "other"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(r.Status)).Inc()
	if r.Refusal != "" {
		m.refused.WithLabelValues(r.Refusal).Inc()
	}
	if r.Streamed {
		end := "whole"
		if r.Status >= http.StatusBadRequest {
			end = "broken"
		}
		m.lists.WithLabelValues(route, end).Observe(r.Duration.Seconds())
		m.listRows.Add(float64(r.Rows))
		return
	}
	tracing.Observe(ctx, m.duration.WithLabelValues(route, strconv.Itoa(r.Status/100)+"xx"), r.Duration.Seconds())
}

// wholeListFull counts a whole list for which there was no place.
func (m *metrics) wholeListFull(full answer.Full) {
	m.noPlace.WithLabelValues(fullLabel(full)).Inc()
}

func fullLabel(full answer.Full) string {
	if full == answer.FullWorkspace {
		return "workspace"
	}
	return "process"
}
