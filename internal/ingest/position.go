package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// holdTime is how long the stream is left to a process that has died, and holdAgain how long
// a process reads before it says again that it does.
const (
	holdTime  = 10 * time.Second
	holdAgain = holdTime / 4
)

// position is how far a stream was read, in the database of the log. That one process
// reads at a time spares the others the work; that each message is appended once and in
// order does not depend on it.
type position struct {
	pool   *pgxpool.Pool
	source string
	self   string // this process
}

// hold makes this process the one that reads, unless another one is. created is zero
// where nothing was read yet.
func (p *position) hold(ctx context.Context) (sequence uint64, created time.Time, held bool, err error) {
	var (
		at   int64
		made *time.Time
	)
	err = p.pool.QueryRow(ctx, `
		INSERT INTO ingest_position AS i (workspace_id, source, sequence, holder, held_until)
		VALUES ('*', $1, 0, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (workspace_id, source) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
		 WHERE i.holder = excluded.holder OR i.held_until < clock_timestamp()
		RETURNING sequence, stream_created`, p.source, p.self, holdTime).Scan(&at, &made)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, created, false, nil
	}
	if err != nil {
		return 0, created, false, fmt.Errorf("find out where the stream is read on: %w", err)
	}
	if made != nil {
		created = *made
	}
	return uint64(at), created, true, nil
}

var errOvertaken = errors.New("another process has read the stream meanwhile")

// move moves the sequence. It does not wait for the disk: where a crash of the server takes it
// back, messages are read again that the log has, and are skipped.
func (p *position) move(ctx context.Context, from, to uint64) error {
	var (
		b     pgx.Batch
		moved bool
	)
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	b.Queue(`UPDATE ingest_position SET sequence = $3, moved_at = clock_timestamp() WHERE workspace_id = '*' AND source = $1 AND sequence = $2`,
		p.source, int64(from), int64(to)).Exec(func(tag pgconn.CommandTag) error {
		moved = tag.RowsAffected() > 0
		return nil
	})
	err := p.pool.SendBatch(ctx, &b).Close()
	return moveError(moved, err)
}

// restart begins with another stream.
func (p *position) restart(ctx context.Context, from uint64, created time.Time) error {
	tag, err := p.pool.Exec(ctx, `UPDATE ingest_position SET sequence = 0, stream_created = $3 WHERE workspace_id = '*' AND source = $1 AND sequence = $2`,
		p.source, int64(from), created)
	return moveError(tag.RowsAffected() > 0, err)
}

func moveError(moved bool, err error) error {
	if err != nil {
		return fmt.Errorf("note how far the stream was read: %w", err)
	}
	if !moved {
		return errOvertaken
	}
	return nil
}
