package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// Options of a benchmark.
type Options struct {
	ServerURL string // a database of the server to measure on; the benchmark makes its own beside it
	Report    *Report
	Progress  io.Writer // what is being done
	Scale     float64   // of the sizes that the targets are stated for; 1 is all of it
	Only      []string  // parts of the benchmark; empty: all of them
}

// size is n scaled, and never less than least.
func (o *Options) size(n, least int) int { return max(least, int(float64(n)*o.Scale)) }

// duration is d scaled, and never less than a second.
func (o *Options) duration(d time.Duration) time.Duration {
	return max(time.Second, time.Duration(float64(d)*o.Scale))
}

func (o *Options) say(format string, args ...any) {
	fmt.Fprintf(o.Progress, format+"\n", args...)
}

// setting is a database of a benchmark's own, fresh and migrated, that is
// dropped at the end.
type setting struct {
	*Options
	url      string
	pool     *pgxpool.Pool
	notifier *eventlog.Notifier
	log      *eventlog.Log
}

// withSetting runs work in a fresh database.
// What work starts beside itself ends with the context that it is given.
func withSetting(ctx context.Context, o *Options, work func(context.Context, *setting) error) (err error) {
	name := "ledgerfeed_bench_" + strconv.Itoa(os.Getpid())
	server, err := pgx.Connect(ctx, o.ServerURL)
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	defer func() { _ = server.Close(context.WithoutCancel(ctx)) }()
	if _, err := server.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return fmt.Errorf("make a database to measure in: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if _, derr := server.Exec(clean, "DROP DATABASE "+name+" WITH (FORCE)"); err == nil && derr != nil {
			err = fmt.Errorf("drop the benchmark's database: %w", derr)
		}
	}()
	s := &setting{Options: o, url: localpg.DatabaseURL(o.ServerURL, name)}
	if _, err := migrations.Up(ctx, s.url); err != nil {
		return err
	}
	if s.pool, err = pg.Open(ctx, s.url, pg.Options{MaxConns: 24}); err != nil {
		return err
	}
	defer s.pool.Close()
	s.notifier = eventlog.NewNotifier(s.pool, quiet())
	if s.log, err = s.logOn(s.pool); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	return work(working, s)
}

// logOn is the log over connections of the caller's choice.
func (s *setting) logOn(pool *pgxpool.Pool) (*eventlog.Log, error) {
	return eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now, Notify: s.notifier.Notify})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// settle lets the database finish what the measurement before left to it, so
// that the next does not pay for it.
func (s *setting) settle(ctx context.Context) error {
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settle the database: %w", err)
		}
	}
	return nil
}

// withoutDisk has no commit wait for the disk.
func (s *setting) withoutDisk(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	if err != nil {
		return fmt.Errorf("let commits not wait for the disk: %w", err)
	}
	s.pool.Reset() // for connections that are made from now on
	return nil
}

// hammer runs callers side by side for a time and counts what they do; each is
// given its number, and its do is called until the time is over.
func hammer(ctx context.Context, callers int, d time.Duration, do func(ctx context.Context, caller, turn int) error) (count int, took time.Duration, times []time.Duration, err error) {
	stop := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(stop) })
	defer timer.Stop()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	began := time.Now()
	for c := range callers {
		group.Go(func() {
			var mine []time.Duration
			var failed error
			for turn := 0; failed == nil; turn++ {
				select {
				case <-stop:
					mu.Lock()
					times = append(times, mine...)
					mu.Unlock()
					return
				default:
				}
				at := time.Now()
				if failed = do(ctx, c, turn); failed == nil {
					mine = append(mine, time.Since(at))
				}
			}
			mu.Lock()
			if err == nil {
				err = failed
			}
			mu.Unlock()
		})
	}
	group.Wait()
	return len(times), time.Since(began), times, err
}

// peakMemory is the most memory the process has held so far, in MiB, as the
// system counts it; 0 where the system does not say.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}

// forgetPeak starts counting the peak anew.
func forgetPeak() {
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // where it is refused, the peak is that of the whole run
}
