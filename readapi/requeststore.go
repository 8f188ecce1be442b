package readapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RequestStoreConfig is what a RequestStore needs.
type RequestStoreConfig struct {
	Pool   *pgxpool.Pool
	Clock  func() time.Time
	Logger *slog.Logger

	// FlushEvery is how often records are written. Default: a second.
	FlushEvery time.Duration
	// Waiting is how many records may wait to be written; what comes when they
	// are that many is dropped and counted. Default: 16,384.
	Waiting int
}

// RequestStore is a RequestLog that keeps requests in the database: accepted
// ones for 30 days one by one, refused ones as counts by the minute. Records are
// written in batches by Run, off the requests' path; a request never waits.
type RequestStore struct {
	cfg     RequestStoreConfig
	waiting chan RequestRecord
	dropped atomic.Int64
	uses    keyUses
}

const (
	defaultFlush   = time.Second
	defaultWaiting = 16 << 10
	// flushSize is how many records are written at once.
	flushSize = 2000
	// flushPatience bounds one writing.
	flushPatience = 5 * time.Second
	// requestSlots is the number of partitions; see the migration.
	requestSlots = 32
	// requestDays is how many days besides today are kept.
	requestDays = 30
	// noWorkspace stands for the workspace of requests without a key.
	noWorkspace = "*"
)

// NewRequestStore makes a RequestStore; without Run it keeps nothing.
func NewRequestStore(cfg RequestStoreConfig) (*RequestStore, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("readapi: RequestStoreConfig needs a Pool, a Clock and a Logger")
	}
	if cfg.FlushEvery < 0 || cfg.Waiting < 0 {
		return nil, errors.New("readapi: RequestStoreConfig.FlushEvery and Waiting are not below 0")
	}
	if cfg.FlushEvery == 0 {
		cfg.FlushEvery = defaultFlush
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = defaultWaiting
	}
	return &RequestStore{cfg: cfg, waiting: make(chan RequestRecord, cfg.Waiting), uses: keyUses{}}, nil
}

// Record takes a record without waiting.
func (s *RequestStore) Record(r *RequestRecord) {
	select {
	case s.waiting <- *r:
	default:
		s.dropped.Add(1)
	}
}

// Dropped is how many records were lost because too many were waiting or could
// not be written.
func (s *RequestStore) Dropped() int64 { return s.dropped.Load() }

// Run writes records until ctx is done, then those that wait, and returns nil.
// It also empties the partition of the day to come. A database that is away
// costs the records of that time, nothing else.
func (s *RequestStore) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.FlushEvery)
	defer ticker.Stop()
	failing, emptied := false, int64(-1)
	for {
		ended := ctx.Err() != nil
		err := s.flush(context.WithoutCancel(ctx))
		if day := dayOf(s.cfg.Clock()); err == nil && emptied != day && !ended {
			if err = s.empty(ctx, day); err == nil {
				emptied = day
			}
		}
		switch {
		case err != nil && !failing:
			s.cfg.Logger.WarnContext(ctx, "requests are not being kept for the console", "error", err)
		case err == nil && failing:
			s.cfg.Logger.InfoContext(ctx, "requests are being kept for the console again", "dropped", s.Dropped())
		}
		failing = err != nil
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// flush writes all that waits.
func (s *RequestStore) flush(ctx context.Context) error {
	for {
		batch := s.take()
		if len(batch) == 0 {
			return nil
		}
		if err := s.write(ctx, batch); err != nil {
			s.dropped.Add(int64(len(batch)))
			return err
		}
	}
}

// take takes up to flushSize records.
func (s *RequestStore) take() []RequestRecord {
	var batch []RequestRecord
	for len(batch) < flushSize {
		select {
		case r := <-s.waiting:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// refusedKind is what refused requests are counted by.
type refusedKind struct {
	workspaceID string
	minute      time.Time
	reason      Refusal
	keyID       string
}

func (s *RequestStore) write(ctx context.Context, batch []RequestRecord) error {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	var accepted [][]any
	refused := map[refusedKind]int64{}
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
			accepted = append(accepted, []any{
				int16(dayOf(r.At) % requestSlots), r.WorkspaceID, r.At, r.RequestID, r.KeyID, r.KeyPrefix,
				r.Method, r.Route, int16(r.Status), r.Duration.Microseconds(), int64(r.Bytes), int32(r.Rows), uuid.New(),
			})
		}
	}
	if len(accepted) > 0 {
		columns := []string{
			"slot", "workspace_id", "at", "request_id", "key_id", "key_prefix", "method", "route", "status", "duration_us", "bytes", "row_count", "record_id",
		}
		if _, err := s.cfg.Pool.CopyFrom(ctx, pgx.Identifier{"request_log"}, columns, pgx.CopyFromRows(accepted)); err != nil {
			return fmt.Errorf("write requests: %w", err)
		}
	}
	if err := s.writeKeyUses(ctx, batch); err != nil {
		return err
	}
	return s.writeRefused(ctx, refused)
}

func (s *RequestStore) writeRefused(ctx context.Context, refused map[refusedKind]int64) error {
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
		reasons = append(reasons, string(kind.reason))
		keys = append(keys, kind.keyID)
		counts = append(counts, n)
	}
	// In order of the key, so that two instances never wait for each other.
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

// dayOf numbers days since 1970, UTC.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// empty empties the partition of tomorrow, which holds what is 31 days old, and
// removes counts of that age. One instance does it; the others find it done.
func (s *RequestStore) empty(ctx context.Context, today int64) error {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	oldest := time.Unix((today-requestDays)*24*60*60, 0).UTC()
	partition := pgx.Identifier{fmt.Sprintf("request_log_%02d", (today+1)%requestSlots)}.Sanitize()
	var outdated bool
	err := s.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+partition+` WHERE at < $1)`, oldest).Scan(&outdated)
	if err != nil {
		return fmt.Errorf("look for old requests: %w", err)
	}
	if outdated {
		if _, err := s.cfg.Pool.Exec(ctx, `TRUNCATE `+partition); err != nil {
			return fmt.Errorf("empty %s: %w", partition, err)
		}
	}
	if _, err := s.cfg.Pool.Exec(ctx, `DELETE FROM request_refused WHERE minute < $1`, oldest); err != nil {
		return fmt.Errorf("remove old counts of refused requests: %w", err)
	}
	return nil
}
