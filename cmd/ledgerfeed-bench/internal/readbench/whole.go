package readbench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

const (
	// wholeRounds is how often a whole list and its limit are read by turns.
	wholeRounds = 3
	// besideRounds alternate between pages alone and beside a whole list.
	besideRounds = 5
)

// whole measures whole lists: how fast one comes, against a COPY of the same bytes, and
// what the readers of pages feel of it.
func (r *reader) whole(ctx context.Context) error {
	if err := r.prepareWide(ctx); err != nil {
		return err
	}
	list := api.Request{Host: r.uncached.Address, Path: invoices, Key: r.wideKey, Accept: "application/x-ndjson"}
	if err := r.wholeRate(ctx, list); err != nil {
		return err
	}
	for _, form := range []struct{ name, accept, encoding string }{
		{"    as CSV", "text/csv", ""}, {"    as NDJSON, with zstd", list.Accept, "zstd"}, {"    as NDJSON, with gzip", list.Accept, "gzip"},
	} {
		other := list
		other.Accept, other.Encoding = form.accept, form.encoding
		_, took, err := readWhole(ctx, r, other)
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{Name: form.name, Value: measure.PerSecond(r.wide, took), Unit: "rows/s"})
	}
	return r.besideWhole(ctx, list)
}

// wholeRate compares a whole list with a COPY of the same rows, in the same order.
func (r *reader) wholeRate(ctx context.Context, list api.Request) error {
	var rates, limits []float64
	for range wholeRounds {
		sent, took, err := readWhole(ctx, r, list)
		if err != nil {
			return err
		}
		rates = append(rates, measure.PerSecond(r.wide, took))
		copied, took, err := copyWhole(ctx, r)
		if err != nil {
			return err
		}
		// The last line of the list is not a row.
		if diff := sent - copied; diff < 0 || diff > 300 {
			return fmt.Errorf("a whole list has %d bytes, and the COPY of its rows %d", sent, copied)
		}
		limits = append(limits, measure.PerSecond(r.wide, took))
	}
	rate := measure.Median(rates)
	name := fmt.Sprintf("a whole list of %s invoices as NDJSON", measure.Number(float64(r.wide)))
	r.Report.Add(measure.Figure{Name: name, Value: rate, Unit: "rows/s"}.AtLeast(150_000))
	r.Report.Add(measure.Figure{
		Name: "    the same", Value: rate, Unit: "rows/s",
		Limit: measure.Median(limits), LimitIs: "COPY (SELECT …) TO STDOUT of the same bytes",
	}.RatioAtLeast(0.6))
	return nil
}

// readWhole reads a whole list and returns how many bytes it has, and how long that took.
func readWhole(ctx context.Context, r *reader, q api.Request) (sent int64, took time.Duration, err error) {
	began := time.Now()
	resp, err := r.uncached.Get(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	sent, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.Trailer.Get("Next-Cursor") == "" {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return sent, 0, fmt.Errorf("cannot read a whole list: %w", err)
	}
	return sent, time.Since(began), nil
}

// copyWhole lets the database send the same rows.
func copyWhole(ctx context.Context, r *reader) (sent int64, took time.Duration, err error) {
	conn, err := r.Pool.Acquire(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot copy a list: %w", err)
	}
	defer conn.Release()
	var counted counter
	began := time.Now()
	_, err = conn.Conn().PgConn().CopyTo(ctx, &counted, `COPY (SELECT base || pay || margin || '}' FROM invoice
		WHERE workspace_id = '`+wideWorkspace+`' AND shown ORDER BY position, id) TO STDOUT`)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot copy a list: %w", err)
	}
	return int64(counted), time.Since(began), nil
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// besideWhole measures pages of another workspace while a whole list is read.
func (r *reader) besideWhole(ctx context.Context, list api.Request) error {
	pages := r.on(r.uncached, invoices)
	var alone, beside []float64
	var bytes, seconds float64
	for range besideRounds {
		times, err := api.AtRate(ctx, r.Options, pages, floodedRate)
		if err != nil {
			return err
		}
		alone = append(alone, measure.Quantile(times, 0.99))
		reading, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			began := time.Now()
			defer func() { seconds += time.Since(began).Seconds() }()
			for {
				sent, _, err := readWhole(reading, r, list)
				bytes += float64(sent)
				if reading.Err() != nil {
					ended <- nil
					return
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		times, err = api.AtRate(ctx, r.Options, pages, floodedRate)
		stop()
		if failed := <-ended; err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
		beside = append(beside, measure.Quantile(times, 0.99))
	}
	r.Report.Add(measure.Figure{
		Name: "a page while a whole list is sent, p99", Value: measure.Median(beside), Unit: "ms",
		Limit: measure.Median(alone), LimitIs: "the same without the list",
	}.RatioAtMost(1.5))
	r.Report.Add(measure.Figure{Name: "    the list meanwhile", Value: measure.MiB(bytes / seconds), Unit: "MiB/s"})
	return nil
}
