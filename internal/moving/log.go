package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// entriesPage bounds the entries copied in one transaction, and copyBytes roughly the size of
	// their data together: an entry has up to 64 KiB.
	entriesPage = 2000
	copyBytes   = 4 << 20
)

// head is the newest entry of a place.
type head struct {
	position int64
	chain    []byte
}

func headOf(ctx context.Context, m *Mover, p *Place) (h head, err error) {
	err = p.Pool.QueryRow(ctx, `SELECT position, chain FROM log_head WHERE workspace_id = $1`, m.cfg.WorkspaceID).Scan(&h.position, &h.chain)
	if err != nil {
		return h, fmt.Errorf("read the head of %s in %s: %w", m.cfg.WorkspaceID, p.Name, err)
	}
	return h, nil
}

func (h head) equal(other head) bool {
	return h.position == other.position && bytes.Equal(h.chain, other.chain)
}

// lockedHead is a locked head, with the time of the lock by the database's clock.
type lockedHead struct {
	head
	at          time.Time
	closedUntil pgtype.Timestamptz
}

// closed reports whether appends were refused when the head was locked.
func (h *lockedHead) closed() bool {
	return h.closedUntil.Valid && (h.closedUntil.InfinityModifier == pgtype.Infinity || h.closedUntil.Time.After(h.at))
}

// lockHead locks the newest entry of the place that tx runs at. It reads the time in a second
// query, so that the time is after the lock.
func lockHead(ctx context.Context, m *Mover, tx pgx.Tx) (*lockedHead, error) {
	var (
		h lockedHead
		b pgx.Batch
	)
	b.Queue(`SELECT position, chain, closed_until FROM log_head WHERE workspace_id = $1 FOR UPDATE`, m.cfg.WorkspaceID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&h.position, &h.chain, &h.closedUntil) })
	b.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&h.at) })
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("lock the head of %s: %w", m.cfg.WorkspaceID, err)
	}
	return &h, nil
}

// lockSameHead is lockHead, but returns a *DivergedError if the newest entry is not want.
func lockSameHead(ctx context.Context, m *Mover, tx pgx.Tx, want head) error {
	h, err := lockHead(ctx, m, tx)
	if err == nil && !h.equal(want) {
		err = &DivergedError{WorkspaceID: m.cfg.WorkspaceID, Position: h.position}
	}
	return err
}

// copyLog copies the entries that the new place's log lacks and returns the last of them. It stops
// at the entry that was the old place's newest when last read. It does not wait for a pause in the
// appends, which may never come.
func copyLog(ctx context.Context, m *Mover) (head, error) {
	h, err := headOf(ctx, m, &m.cfg.To)
	if err != nil {
		return h, err
	}
	if err := sameAt(ctx, m, h); err != nil {
		return h, err
	}
	for {
		next, more, err := copyEntries(ctx, m, h)
		if err != nil {
			return h, err
		}
		if next.position > h.position {
			m.cfg.To.notify(eventlog.TopicAppended, m.cfg.WorkspaceID)
		}
		h = next
		if !more {
			return h, nil
		}
	}
}

// sameAt checks that the old place has the new place's newest entry.
func sameAt(ctx context.Context, m *Mover, h head) error {
	if h.position == 0 {
		return nil
	}
	var chain []byte
	err := m.cfg.From.Pool.QueryRow(ctx, `SELECT chain FROM event_log WHERE workspace_id = $1 AND position = $2`, m.cfg.WorkspaceID, h.position).Scan(&chain)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("compare the logs of %s: %w", m.cfg.WorkspaceID, err)
	}
	if !bytes.Equal(chain, h.chain) {
		return &DivergedError{WorkspaceID: m.cfg.WorkspaceID, Position: h.position}
	}
	return nil
}

// stored is an entry with the other columns that the log keeps for it.
type stored struct {
	domain.Entry
	public, subject *string
	appended        *time.Time
}

// copyEntries copies the next entries after the new place's head and returns the new head. more
// says that the old place may have further entries.
func copyEntries(ctx context.Context, m *Mover, after head) (at head, more bool, err error) {
	entries, more, err := readEntries(ctx, m, after)
	if err != nil || len(entries) == 0 {
		return after, false, err
	}
	newest := &entries[len(entries)-1]
	err = m.cfg.To.inTx(ctx, func(tx pgx.Tx) error {
		r, err := m.lockRow(ctx, tx)
		if err != nil {
			return err
		}
		if !m.is(r, receiving, ready) {
			return ErrUndone
		}
		h, err := lockHead(ctx, m, tx)
		if err != nil {
			return err
		}
		if h.position != after.position {
			return fmt.Errorf("another process copies %s as well; end one of them", m.cfg.WorkspaceID)
		}
		rows := pgx.CopyFromSlice(len(entries), func(i int) ([]any, error) {
			e := &entries[i]
			return []any{e.WorkspaceID, e.Position, e.ID, e.Type, e.CreatedAt, e.Data, e.public, e.Chain[:], e.appended}, nil
		})
		columns := []string{"workspace_id", "position", "id", "type", "created_at", "data", "public_event", "chain", "appended_at"}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"event_log"}, columns, rows); err != nil {
			return fmt.Errorf("write entries of %s: %w", m.cfg.WorkspaceID, err)
		}
		if err := copyDetached(ctx, tx, entries); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE log_head SET position = $2, created_at = $3, chain = $4 WHERE workspace_id = $1`,
			m.cfg.WorkspaceID, newest.Position, newest.CreatedAt, newest.Chain[:])
		if err != nil {
			return fmt.Errorf("move the head of %s: %w", m.cfg.WorkspaceID, err)
		}
		return nil
	})
	return head{newest.Position, newest.Chain[:]}, more, err
}

// copyDetached writes the detached values of entries.
func copyDetached(ctx context.Context, tx pgx.Tx, entries []stored) error {
	var rows [][]any
	for i := range entries {
		if e := &entries[i]; e.subject != nil {
			rows = append(rows, []any{e.WorkspaceID, e.Position, *e.subject, e.Salt[:], e.Value})
		}
	}
	columns := []string{"workspace_id", "position", "subject", "salt", "value"}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"log_detached"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return fmt.Errorf("write the detached values of %s: %w", entries[0].WorkspaceID, err)
	}
	// What an entry forgets may have been copied before, so each place deletes for itself.
	_, err := tx.Exec(ctx, `
		WITH forgets AS MATERIALIZED (
		    SELECT e.workspace_id, log_forgets(e.type, e.data), e.position FROM event_log e
		     WHERE e.workspace_id = $1 AND e.position BETWEEN $2 AND $3 AND log_forgets(e.type, e.data) IS NOT NULL)
		INSERT INTO log_forgotten (workspace_id, subject, position)
		SELECT * FROM forgets`,
		entries[0].WorkspaceID, entries[0].Position, entries[len(entries)-1].Position)
	if err != nil {
		return fmt.Errorf("note who is forgotten in %s: %w", entries[0].WorkspaceID, err)
	}
	return nil
}

// readEntries reads the next entries of the old place and checks their positions and chain. more
// says that there may be further entries.
func readEntries(ctx context.Context, m *Mover, after head) (entries []stored, more bool, err error) {
	rows, err := m.cfg.From.Pool.Query(ctx, `
		SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.chain, e.public_event, e.appended_at, d.subject, d.salt, d.value
		  FROM `+eventlog.FromLog+`
		 WHERE e.workspace_id = $1 AND e.position > $2 ORDER BY e.position LIMIT $3`, m.cfg.WorkspaceID, after.position, entriesPage)
	if err != nil {
		return nil, false, fmt.Errorf("read entries of %s: %w", m.cfg.WorkspaceID, err)
	}
	defer rows.Close()
	var (
		size   int
		before = [32]byte(after.chain)
		chain  []byte
		salt   []byte
		value  *string
	)
	for size < copyBytes && rows.Next() {
		e := stored{Entry: domain.Entry{WorkspaceID: m.cfg.WorkspaceID}}
		if err := rows.Scan(&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &chain, &e.public, &e.appended, &e.subject, &salt, &value); err != nil {
			return nil, false, fmt.Errorf("read entries of %s: %w", m.cfg.WorkspaceID, err)
		}
		e.Chain = [32]byte(chain)
		e.CreatedAt = e.CreatedAt.UTC()
		eventlog.SetDetached(&e.Entry, salt, value)
		if e.Position != after.position+int64(len(entries))+1 || e.ChainAfter(before) != e.Chain {
			return nil, false, &DivergedError{WorkspaceID: m.cfg.WorkspaceID, Position: e.Position, Altered: true}
		}
		before = e.Chain
		size += len(e.Data) + len(e.Value)
		entries = append(entries, e)
	}
	if size < copyBytes {
		if err := rows.Err(); err != nil {
			return nil, false, fmt.Errorf("read entries of %s: %w", m.cfg.WorkspaceID, err)
		}
	}
	return entries, size >= copyBytes || len(entries) == entriesPage, nil
}

// lookEvery is how often a move polls for a state that it waits for.
const lookEvery = 20 * time.Millisecond

// awaitProjected waits until the new place's read models reach a position. It returns an *IdleError
// if they make no progress for Config.Idle.
func awaitProjected(ctx context.Context, m *Mover, position int64) error {
	since, last := time.Now(), int64(-1)
	for {
		var (
			at          int64
			quarantined bool
			fault       string
		)
		err := m.cfg.To.Pool.QueryRow(ctx, `
			SELECT position, quarantined, coalesce(error, '') FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`,
			m.cfg.WorkspaceID).Scan(&at, &quarantined, &fault)
		switch {
		case err != nil:
			return fmt.Errorf("look how far the read models of %s are: %w", m.cfg.WorkspaceID, err)
		case at >= position:
			return nil
		case quarantined:
			if err := skipAlike(ctx, m, at+1, fault); err != nil {
				return err
			}
		}
		if at != last {
			since, last = time.Now(), at
		}
		if time.Since(since) > m.cfg.Idle {
			return &IdleError{m.cfg.To.Name, "a serving process with the role project", at, fault}
		}
		if !flow.Sleep(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

// skipAlike makes the new place skip an entry that it cannot project, if an operator made the old
// place skip it. Otherwise it returns an *IdleError.
func skipAlike(ctx context.Context, m *Mover, position int64, fault string) error {
	skips, err := eventlog.NewQuarantine(m.cfg.From.Pool, eventlog.ReadModels, m.cfg.Clock, m.cfg.From.notify).Skips(ctx, m.cfg.WorkspaceID)
	if err != nil {
		return fmt.Errorf("read which entries of %s are skipped: %w", m.cfg.WorkspaceID, err)
	}
	for _, s := range skips {
		if s.Position != position {
			continue
		}
		if _, err := eventlog.NewQuarantine(m.cfg.To.Pool, eventlog.ReadModels, m.cfg.Clock, m.cfg.To.notify).Skip(ctx, m.cfg.WorkspaceID, s.Reason); err != nil {
			return fmt.Errorf("skip position %d of %s, as at the old place: %w", position, m.cfg.WorkspaceID, err)
		}
		return nil
	}
	return &IdleError{m.cfg.To.Name, fmt.Sprintf("the read models to take position %d, which is quarantined", position), position - 1, fault}
}
