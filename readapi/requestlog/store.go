// Package requestlog keeps the requests of the API for the console: accepted ones one by one for 30
// days, refused ones as counts per minute (docs/contract/service.md, "Limits", 6). It also keeps
// when each key was last used.
package requestlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// Record is what is kept of a request. It holds no part of a query except the names of parameters,
// and it must not hold a key; the code that makes a Record ensures both.
type Record struct {
	At          time.Time // when the request arrived
	WorkspaceID string    // empty without a known key
	KeyID       string
	KeyPrefix   string
	RequestID   string
	Method      string
	Route       string // such as /v1/invoices/{id}; empty for unknown paths
	Status      int
	Duration    time.Duration
	Bytes       int // of the body as it was sent
	Rows        int
	Streamed    bool   // the answer was a whole list, so Duration depends on its reader
	Refusal     string // why the request was refused before it was processed; empty: it was not

	// Only accepted requests have these. The texts must be valid UTF-8 without NUL.
	Path      string     // percent-encoded; empty if it equals Route. Bounded by MaxPath
	Address   netip.Addr // of the caller; the zero Addr: not known
	UserAgent string     // bounded by MaxUserAgent
	Problem   *Problem   // nil: the answer was no error
}

// Limits of text that callers send, in bytes, and of the faults kept of one request.
const (
	MaxPath      = 256
	MaxUserAgent = 200
	MaxFaults    = 10
)

// Problem is the error that the caller got.
type Problem struct {
	Title      string  `json:"title"`
	Detail     string  `json:"detail,omitempty"`
	Permission string  `json:"permission,omitempty"` // that the key lacks
	Errors     []Fault `json:"errors,omitempty"`     // the first MaxFaults
}

// Fault is what is wrong with one parameter.
type Fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// minuteOf returns the number of the clock minute, counted since 1970.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// dayOf returns the number of the day, counted since 1970, in UTC.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// Slots returns the partitions of request_log (its column slot) with the requests from one moment
// to another, both included.
func Slots(from, to time.Time) []int16 {
	var list []int16
	for day := dayOf(from); day <= dayOf(to) && len(list) < Partitions; day++ {
		list = append(list, int16(day%Partitions))
	}
	return list
}

// Config is what a Store needs.
type Config struct {
	Pool   pg.DB
	Clock  func() time.Time
	Logger *slog.Logger

	// FlushEvery is how often records are written. Default: a second.
	FlushEvery time.Duration
	// QueueSize is how many records may wait to be written. While the queue is full, further
	// records are dropped and counted. Default: 16,384.
	QueueSize int
}

// Store keeps requests in the database. Record only queues them, so that no
// request waits; Run writes them in batches.
type Store struct {
	cfg     Config
	queue   chan Record
	dropped atomic.Int64
	uses    keyUses
	rollups *rollup.Writer
}

const (
	defaultFlush     = time.Second
	defaultQueueSize = 16 << 10
	// batchSize is how many records are written at once.
	batchSize    = 2000
	writeTimeout = 5 * time.Second
	// removeLockTimeout is how long removing old requests waits for a lock.
	removeLockTimeout = 200 * time.Millisecond
	// removeRetry is how long to wait after a failure before old requests are removed again.
	removeRetry = time.Minute
	// Partitions is the number of partitions of request_log, one per day; see the migration.
	Partitions = 32
	// daysKept is how many days before today are kept.
	daysKept = 30
	// noWorkspace is the workspace id for requests without a key.
	noWorkspace = "*"
	// rateLimited is the refusal of a request over its key's limit.
	rateLimited = "rate_limit"
)

// New makes a Store. Without Run it writes nothing. The error says what is wrong
// with cfg.
func New(cfg Config) (*Store, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("request log: Config needs a Pool, a Clock and a Logger")
	}
	if cfg.FlushEvery < 0 || cfg.QueueSize < 0 {
		return nil, errors.New("request log: Config.FlushEvery and QueueSize must not be below 0")
	}
	if cfg.FlushEvery == 0 {
		cfg.FlushEvery = defaultFlush
	}
	if cfg.QueueSize == 0 {
		cfg.QueueSize = defaultQueueSize
	}
	return &Store{cfg: cfg, queue: make(chan Record, cfg.QueueSize), uses: keyUses{}, rollups: rollup.NewWriter(cfg.Pool, cfg.Logger)}, nil
}

// Record queues a copy of a record. It never blocks.
func (s *Store) Record(r *Record) {
	select {
	case s.queue <- *r:
	default:
		s.dropped.Add(1)
	}
}

// Dropped returns how many records were lost because the queue was full or they could not be
// written.
func (s *Store) Dropped() int64 { return s.dropped.Load() }

// Run writes records until ctx is done, then writes those still queued, and returns nil. Once a day
// it empties the partition of the next day. While the database is unavailable, the records of that
// time are lost, and nothing else.
func (s *Store) Run(ctx context.Context) error {
	end := s.rollups.Start()
	defer end()
	ticker := time.NewTicker(s.cfg.FlushEvery)
	defer ticker.Stop()
	keeping := &flow.Outage{
		Logger:  s.cfg.Logger,
		Failing: "requests are not being kept for the console",
		Working: "requests are being kept for the console again",
	}
	removing := &flow.Outage{
		Logger:  s.cfg.Logger,
		Failing: "old requests cannot be removed; it is tried again every minute",
		Working: "old requests are removed again",
	}
	var again time.Time // when to remove old requests again after a failure
	for emptied := int64(-1); ; {
		ended := ctx.Err() != nil
		wrote, err := s.flush(context.WithoutCancel(ctx))
		if wrote || err != nil { // nothing to write says nothing about the database
			keeping.LogTransition(ctx, err, "dropped", s.Dropped())
		}
		if day := dayOf(s.cfg.Clock()); err == nil && emptied != day && !ended && !time.Now().Before(again) {
			err = s.removeOld(ctx, day)
			if err == nil {
				emptied = day
			}
			removing.LogTransition(ctx, err)
			again = time.Now().Add(removeRetry)
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// flush writes everything that is queued, and tells whether it wrote anything.
func (s *Store) flush(ctx context.Context) (wrote bool, err error) {
	for {
		batch := s.nextBatch()
		if len(batch) == 0 {
			return wrote, nil
		}
		if err := s.keep(ctx, batch); err != nil {
			return wrote, err
		}
		wrote = true
	}
}

// keep writes a batch. A record that the database cannot store costs its own place alone: the rest of
// the batch is written without it.
func (s *Store) keep(ctx context.Context, batch []Record) error {
	err := s.write(ctx, batch)
	switch {
	case err == nil:
		s.count(batch)
	case len(batch) > 1 && pg.Unstorable(err):
		half := len(batch) / 2
		return errors.Join(s.keep(ctx, batch[:half]), s.keep(ctx, batch[half:]))
	default:
		s.dropped.Add(int64(len(batch)))
	}
	return err
}

// count counts written requests by interval.
func (s *Store) count(batch []Record) {
	for i := range batch {
		r := &batch[i]
		s.rollups.AddRequest(&rollup.Request{
			At: r.At, WorkspaceID: r.WorkspaceID, KeyID: r.KeyID, Route: r.Route, Status: r.Status, Duration: r.Duration, Streamed: r.Streamed,
			Refused: r.Refusal != "", RateLimited: r.Refusal == rateLimited,
		})
	}
}

// nextBatch takes up to batchSize records from the queue.
func (s *Store) nextBatch() []Record {
	var batch []Record
	for len(batch) < batchSize {
		select {
		case r := <-s.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// refusedCounts counts refused requests by kind.
type refusedCounts map[refusedKind]int64

type refusedKind struct {
	workspaceID string
	minute      time.Time
	reason      string
	keyID       string
}

func (s *Store) write(ctx context.Context, batch []Record) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var accepted [][]any
	refused := refusedCounts{}
	for i := range batch {
		r := &batch[i]
		switch {
		case r.Refusal != "":
			kind := refusedKind{r.WorkspaceID, r.At.UTC().Truncate(time.Minute), r.Refusal, r.KeyID}
			if kind.workspaceID == "" {
				kind.workspaceID = noWorkspace
			}
			refused[kind]++
		case r.WorkspaceID != "":
			accepted = append(accepted, r.row())
		}
	}
	if len(accepted) > 0 {
		if _, err := s.cfg.Pool.CopyFrom(ctx, pgx.Identifier{"request_log"}, columns(), pgx.CopyFromRows(accepted)); err != nil {
			return fmt.Errorf("write requests: %w", err)
		}
	}
	if err := s.uses.write(ctx, s.cfg.Pool, batch); err != nil {
		return err
	}
	return s.writeRefused(ctx, refused)
}

func columns() []string {
	return []string{
		"slot", "workspace_id", "at", "request_id", "key_id", "key_prefix", "method", "route", "status", "duration_us", "bytes", "row_count", "record_id",
		"path", "address", "user_agent", "problem",
	}
}

// row returns the values of columns.
func (r *Record) row() []any {
	var address, problem any // NULL
	if r.Address.IsValid() {
		address = r.Address
	}
	if r.Problem != nil {
		problem = r.Problem
	}
	return []any{
		int16(dayOf(r.At) % Partitions), r.WorkspaceID, r.At, r.RequestID, r.KeyID, r.KeyPrefix,
		r.Method, r.Route, int16(r.Status), r.Duration.Microseconds(), int64(r.Bytes), int32(r.Rows), uuid.New(),
		known(r.Path), address, known(r.UserAgent), problem,
	}
}

// known returns text, or NULL if it is empty.
func known(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func (s *Store) writeRefused(ctx context.Context, refused refusedCounts) error {
	if len(refused) == 0 {
		return nil
	}
	var (
		workspaces, reasons, keys []string
		minutes                   []time.Time
		counts                    []int64
	)
	for kind, n := range refused {
		workspaces = append(workspaces, kind.workspaceID)
		minutes = append(minutes, kind.minute)
		reasons = append(reasons, kind.reason)
		keys = append(keys, kind.keyID)
		counts = append(counts, n)
	}
	// Every instance locks the rows in the order of their key, so that no two
	// deadlock.
	const add = `
		INSERT INTO request_refused AS r (workspace_id, minute, reason, key_id, refused)
		SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::bigint[]) AS t (w, m, r, k, n)
		 ORDER BY w COLLATE "C", m, r COLLATE "C", k COLLATE "C"
		ON CONFLICT (workspace_id, minute, reason, key_id) DO UPDATE SET refused = r.refused + excluded.refused`
	if _, err := s.cfg.Pool.Exec(ctx, add, workspaces, minutes, reasons, keys, counts); err != nil {
		return fmt.Errorf("count refused requests: %w", err)
	}
	return nil
}

// removeOld empties tomorrow's partition, which holds requests from 31 days ago, and removes counts
// of that age. The first instance to do so leaves nothing for the others.
func (s *Store) removeOld(ctx context.Context, today int64) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := eventlog.CheckClock(ctx, s.cfg.Pool, s.cfg.Clock()); err != nil { // a wrong clock would remove what is kept
		return err
	}
	oldest := time.Unix((today-daysKept)*24*60*60, 0).UTC()
	// Each step has its own transaction, because neither depends on the other. If a table is
	// locked, a step gives up soon, so that new records do not queue behind it.
	return errors.Join(
		s.limited(ctx, func(tx pgx.Tx) error { return emptyPartition(ctx, tx, today, oldest) }),
		s.limited(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `DELETE FROM request_refused WHERE minute < $1`, oldest); err != nil {
				return fmt.Errorf("remove old counts of refused requests: %w", err)
			}
			return nil
		}))
}

// limited runs f in a transaction whose statements wait for locks no longer than removeLockTimeout.
// This also bounds how long readers of the request log queue behind a TRUNCATE that waits for a
// long transaction that has read some of it.
func (s *Store) limited(ctx context.Context, f func(pgx.Tx) error) error {
	return pg.InLimitedTx(ctx, s.cfg.Pool, removeLockTimeout, f)
}

// emptyPartition empties the partition of the day after today if it holds requests older than
// oldest.
func emptyPartition(ctx context.Context, tx pgx.Tx, today int64, oldest time.Time) error {
	partition := pgx.Identifier{fmt.Sprintf("request_log_%02d", (today+1)%Partitions)}.Sanitize()
	var outdated bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+partition+` WHERE at < $1)`, oldest).Scan(&outdated)
	if err != nil {
		return fmt.Errorf("look for old requests: %w", err)
	}
	if !outdated {
		return nil
	}
	if _, err := tx.Exec(ctx, `TRUNCATE `+partition); err != nil {
		return fmt.Errorf("empty %s: %w", partition, err)
	}
	return nil
}

// keyUses holds, for each key, the minute of the last use that was written, so that each key is
// written at most once a minute. Only Run's goroutine uses it.
type keyUses map[usedKey]int64

type usedKey struct{ workspaceID, keyID string }

// maxKeyUses bounds keyUses. Above it, the whole map is cleared, which costs each key one extra
// write.
const maxKeyUses = 100_000

// write stores when the keys of accepted requests were last used.
func (u keyUses) write(ctx context.Context, pool pg.DB, batch []Record) error {
	latest := map[usedKey]time.Time{}
	for i := range batch {
		r := &batch[i]
		key := usedKey{r.WorkspaceID, r.KeyID}
		if r.Refusal != "" || r.WorkspaceID == "" || u[key] >= minuteOf(r.At) {
			continue
		}
		if r.At.After(latest[key]) {
			latest[key] = r.At
		}
	}
	if len(latest) == 0 {
		return nil
	}
	var (
		workspaces, keys []string
		times            []time.Time
	)
	for key, at := range latest {
		workspaces, keys, times = append(workspaces, key.workspaceID), append(keys, key.keyID), append(times, at)
	}
	// Every instance locks the rows in the order of their key, so that no two
	// deadlock.
	const write = `
		WITH used AS MATERIALIZED (
			SELECT k.workspace_id, k.key_id, t.at
			  FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS t (w, k, at)
			  JOIN api_key k ON k.workspace_id = t.w AND k.key_id = t.k
			 ORDER BY k.workspace_id, k.key_id)
		INSERT INTO api_key_use AS u (workspace_id, key_id, last_used_at)
		SELECT * FROM used
		ON CONFLICT (workspace_id, key_id) DO UPDATE SET last_used_at = excluded.last_used_at
		 WHERE date_trunc('minute', u.last_used_at AT TIME ZONE 'UTC') < date_trunc('minute', excluded.last_used_at AT TIME ZONE 'UTC')`
	if _, err := pool.Exec(ctx, write, workspaces, keys, times); err != nil {
		return fmt.Errorf("write when keys were used: %w", err)
	}
	if len(u) > maxKeyUses {
		clear(u)
	}
	for key, at := range latest {
		u[key] = minuteOf(at)
	}
	return nil
}
