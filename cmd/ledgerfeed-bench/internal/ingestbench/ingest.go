// Package ingestbench measures how fast producers append over HTTP, beside append --stream.
package ingestbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
)

// Benchmark measures appending over HTTP.
func Benchmark(o *measure.Options) measure.Benchmark {
	return measure.Benchmark{
		Name: "ingest", Short: "Appending over HTTP, beside append --stream",
		Parts: []measure.Part{{Name: "http", Measure: func(ctx context.Context) error {
			return measure.InDatabase(ctx, o, benchHTTP)
		}}},
	}
}

const (
	program   = "ledgerfeed"
	workspace = "acme"
	rounds    = 3 // of each way in turn, because the machine changes meanwhile
)

// run is a database that is appended to.
type run struct {
	*measure.Database
	path   string // of the program
	drafts []domain.Draft
	size   int // entries of a measurement
	made   int // ids so far
}

func benchHTTP(ctx context.Context, db *measure.Database) (err error) {
	path, err := cli.FindSibling(program)
	if err != nil {
		return err
	}
	if _, err := db.Pool.Exec(ctx, `SELECT workspace_create($1, $1, now())`, workspace); err != nil {
		return fmt.Errorf("cannot make a workspace: %w", err)
	}
	r := &run{Database: db, path: path, size: db.Size(60_000, 6_000)}
	if r.drafts, err = workload.Samples(20_000); err != nil {
		return err
	}
	_, secret, err := ingestapi.NewKeyStore(ingestapi.KeyStoreConfig{Pool: db.Pool, Format: ingestapi.KeyFormat(brand.Brand{}), Clock: time.Now}).Create(ctx, ingestapi.KeyOptions{Workspaces: []string{workspace}, Name: "benchmark"})
	if err != nil {
		return fmt.Errorf("cannot make a producer's key: %w", err)
	}
	address, stop, err := r.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var stream, one, two []float64
	for round := range rounds + 1 {
		db.Say("appending %d entries by append --stream and over HTTP, round %d of %d", r.size, round, rounds)
		for _, way := range []struct {
			figures *[]float64
			measure func() (float64, error)
		}{
			{&stream, func() (float64, error) { return r.stream(ctx) }},
			{&one, func() (float64, error) { return r.post(ctx, address, secret.Reveal(), 1) }},
			{&two, func() (float64, error) { return r.post(ctx, address, secret.Reveal(), 2) }},
		} {
			rate, err := way.measure()
			if err != nil {
				return err
			}
			if round > 0 { // a server's first seconds are slow
				*way.figures = append(*way.figures, rate)
			}
		}
	}
	for _, way := range []struct {
		name  string
		rates []float64
	}{{"1 connection", one}, {"2 connections", two}} {
		db.Report.Add(measure.Figure{
			Name: fmt.Sprintf("append over HTTP, requests of %d entries, %s", ingestapi.MaxEntries, way.name), Value: measure.Median(way.rates), Unit: "entries/s",
			Limit: measure.Median(stream), LimitIs: "append --stream of the same entries to the same workspace",
		}.RatioAtLeast(0.6))
	}
	return nil
}

// lines are entries that the log does not have, as NDJSON in requests of their largest size.
func (r *run) lines() (requests [][]byte) {
	var b bytes.Buffer
	for i := range r.size {
		d := &r.drafts[i%len(r.drafts)]
		r.made++
		fmt.Fprintf(&b, `{"workspace_id":%q,"id":"evt_%d","type":%q,"data":%s}`+"\n", workspace, r.made, d.Type, d.Data)
		if (i+1)%ingestapi.MaxEntries == 0 || i+1 == r.size {
			requests = append(requests, slices.Clone(b.Bytes()))
			b.Reset()
		}
	}
	return requests
}

// stream appends with append --stream, and returns the entries a second from the first answer to the
// last, so that the start of the program does not count.
func (r *run) stream(ctx context.Context) (rate float64, err error) {
	c := exec.CommandContext(ctx, r.path, "append", "--stream") //nolint:gosec // our own program
	c.Env = append(os.Environ(), "DATABASE_URL="+r.URL)
	c.Stdin = bytes.NewReader(bytes.Join(r.lines(), nil))
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", program, err)
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", program, err)
	}
	var began, ended time.Time
	answers := 0
	for scan := bufio.NewScanner(out); scan.Scan(); answers++ {
		if ended = time.Now(); answers == 0 {
			began = ended
		}
	}
	if err := c.Wait(); err != nil {
		return 0, fmt.Errorf("append --stream failed: %w\n%s", err, &said)
	}
	if answers != r.size {
		return 0, fmt.Errorf("append --stream answered %d of %d lines", answers, r.size)
	}
	return measure.PerSecond(answers, ended.Sub(began)), nil
}

// post appends over HTTP with some connections, and returns the entries a second.
func (r *run) post(ctx context.Context, address, key string, connections int) (rate float64, err error) {
	requests := make(chan []byte, r.size)
	for _, body := range r.lines() {
		requests <- body
	}
	close(requests)
	var (
		posting sync.WaitGroup
		mu      sync.Mutex
		failed  error
	)
	began := time.Now()
	for range connections {
		posting.Go(func() {
			for body := range requests {
				if err := post(ctx, address, key, body); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	posting.Wait()
	return measure.PerSecond(r.size, time.Since(began)), failed
}

func post(ctx context.Context, address, key string, body []byte) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/entries", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return fmt.Errorf("cannot post entries: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("cannot read an answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("posting entries was answered with %d: %s", resp.StatusCode, text)
	}
	return nil
}

// serve starts a process that producers append to.
func (r *run) serve(ctx context.Context) (address string, stop func() error, err error) {
	c := exec.CommandContext(ctx, r.path, "serve", "--roles", "ingest-api") //nolint:gosec // our own program
	c.Env = append(os.Environ(), "DATABASE_URL="+r.URL, "LEDGERFEED_INGEST_LISTEN=127.0.0.1:0", "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:0", "LEDGERFEED_DRAIN_DELAY=0s")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	log, err := c.StderrPipe()
	if err != nil {
		return "", nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	if err := c.Start(); err != nil {
		return "", nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	said := ""
	for scan := bufio.NewScanner(log); scan.Scan(); {
		said = scan.Text()
		if _, found, is := strings.Cut(said, "for=ingest-api url=http://"); is {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return strings.TrimSpace(found), func() error {
				if err := c.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
					return fmt.Errorf("cannot stop %s: %w", program, err)
				}
				if err := c.Wait(); err != nil {
					return fmt.Errorf("%s failed: %w", program, err)
				}
				return nil
			}, nil
		}
	}
	return "", nil, fmt.Errorf("%s ended: %s: %w", program, said, c.Wait())
}
