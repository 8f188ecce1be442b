package moving

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// The states of the old place, and those of the new one.
const (
	copying  = "copying"
	holding  = "holding"
	fenced   = "fenced"
	moved    = "moved"
	removing = "removing"
	removed  = "removed"

	receiving = "receiving"
	ready     = "ready"
	open      = "open"
	complete  = "complete"
	abandoned = "abandoned"
)

// row is the workspace's row in a place's workspace_move.
type row struct {
	id, receiver string // uuids; receiver is empty until it is noted
	state, other string
	position     int64
	chain        []byte
}

// lockRow reads a place's row and locks it until tx ends; nil: there is none.
func (m *Mover) lockRow(ctx context.Context, tx pgx.Tx) (*row, error) {
	r := &row{}
	err := tx.QueryRow(ctx, `
		SELECT move_id::text, coalesce(receiver::text, ''), state, other, coalesce(position, 0), chain FROM workspace_move
		 WHERE workspace_id = $1 FOR UPDATE`, m.cfg.WorkspaceID).Scan(&r.id, &r.receiver, &r.state, &r.other, &r.position, &r.chain)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read how far the move of %s is: %w", m.cfg.WorkspaceID, err)
	}
	return r, nil
}

// is reports whether the row belongs to this move and is in one of the states.
func (m *Mover) is(r *row, states ...string) bool {
	return r != nil && r.id == m.id && slices.Contains(states, r.state)
}

// set sets the state in a place's row.
func (m *Mover) set(ctx context.Context, tx pgx.Tx, state string) error {
	_, err := tx.Exec(ctx, `UPDATE workspace_move SET state = $2, changed_at = $3 WHERE workspace_id = $1`, m.cfg.WorkspaceID, state, m.now())
	if err != nil {
		return fmt.Errorf("note that the move of %s is %s: %w", m.cfg.WorkspaceID, state, err)
	}
	return nil
}

// exec runs statements in tx. Each has the workspace as its only parameter.
func (m *Mover) exec(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql, m.cfg.WorkspaceID); err != nil {
			return fmt.Errorf("move %s: %w", m.cfg.WorkspaceID, err)
		}
	}
	return nil
}

// begin makes sure that both places take part in the same move, and returns the state at
// the old one.
func (m *Mover) begin(ctx context.Context) (state string, err error) {
	m.cfg.Step(StepBegin)
	if err := checkPlaces(ctx, m); err != nil {
		return "", err
	}
	if err := checkFree(ctx, m); err != nil {
		return "", err
	}
	var from *row
	if err := m.cfg.From.inTx(ctx, func(tx pgx.Tx) (err error) {
		from, err = beginGiving(ctx, m, tx)
		return err
	}); err != nil {
		return "", err
	}
	m.id = from.id
	var to *row
	if err := m.cfg.To.inTx(ctx, func(tx pgx.Tx) (err error) {
		to, err = beginReceiving(ctx, m, tx, from)
		return err
	}); err != nil {
		return "", err
	}
	tag, err := m.cfg.From.Pool.Exec(ctx, `
		UPDATE workspace_move SET receiver = $3::uuid WHERE workspace_id = $1 AND move_id = $2::uuid AND coalesce(receiver, $3::uuid) = $3::uuid`,
		m.cfg.WorkspaceID, m.id, to.receiver)
	if err != nil {
		return "", fmt.Errorf("note where %s moves to: %w", m.cfg.WorkspaceID, err)
	}
	if tag.RowsAffected() == 0 {
		return "", ErrOther
	}
	return from.state, nil
}

// checkPlaces checks that both places have the same version of the schema, and that their accounts
// own the tables.
func checkPlaces(ctx context.Context, m *Mover) error {
	var versions [2]int64
	for i, p := range []*Place{&m.cfg.From, &m.cfg.To} {
		var owner bool
		var account string
		err := p.Pool.QueryRow(ctx, `
			SELECT (SELECT max(version_id) FROM goose_db_version), pg_has_role(current_user, c.relowner, 'MEMBER'), current_user::text
			  FROM pg_class c WHERE c.oid = 'event_log'::regclass`).Scan(&versions[i], &owner, &account)
		if err != nil {
			return fmt.Errorf("look at %s: %w", p.Name, err)
		}
		if !owner {
			return &OwnerError{p.Name, account}
		}
	}
	if versions[0] != versions[1] {
		return &SchemaError{versions[0], versions[1]}
	}
	return nil
}

// checkFree checks that the new place can take the workspace, before a move begins at the old
// place. The beginning overwrites the old place's record of how the workspace came there, and the
// place that it came from may still need that record for Finish.
func checkFree(ctx context.Context, m *Mover) error {
	const look = `
		SELECT coalesce(m.state, ''), coalesce(m.other, '')
		  FROM workspace w LEFT JOIN workspace_move m ON m.workspace_id = w.workspace_id WHERE w.workspace_id = $1`
	var state, other string
	err := m.cfg.From.Pool.QueryRow(ctx, look, m.cfg.WorkspaceID).Scan(&state, &other)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && state != "" && state != complete {
		return nil // the move that was begun goes on, or beginGiving says what is wrong
	}
	if err == nil {
		err = m.cfg.To.Pool.QueryRow(ctx, look, m.cfg.WorkspaceID).Scan(&state, &other)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look whether %s can take %s: %w", m.cfg.To.Name, m.cfg.WorkspaceID, err)
	case state == "":
		return &TakenError{m.cfg.WorkspaceID, m.cfg.To.Name, "it was made there"}
	case state == removed, (state == receiving || state == ready) && other == m.cfg.From.Name:
		return nil
	}
	return &TakenError{m.cfg.WorkspaceID, m.cfg.To.Name, fmt.Sprintf("its last move there is %q, with %s", state, other)}
}

// beginGiving begins a move at the old place, or finds the one that was begun.
func beginGiving(ctx context.Context, m *Mover, tx pgx.Tx) (*row, error) {
	if err := tx.QueryRow(ctx, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR UPDATE`, m.cfg.WorkspaceID).Scan(nil); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, &domain.UnknownWorkspaceError{WorkspaceID: m.cfg.WorkspaceID}
		}
		return nil, fmt.Errorf("lock the workspace %s: %w", m.cfg.WorkspaceID, err)
	}
	r, err := m.lockRow(ctx, tx)
	if err != nil {
		return nil, err
	}
	if r != nil {
		switch r.state {
		case copying, holding, fenced, moved:
			return r, noteAddress(ctx, m, tx)
		case removing, removed:
			return nil, ErrGone
		case receiving, ready:
			return nil, ErrReceiving
		case open: // its history is still being copied
			return nil, fmt.Errorf("%w: run the move that brought it here again, which copies its history", ErrReceiving)
		}
	}
	r = &row{id: uuid.NewString(), state: copying}
	_, err = tx.Exec(ctx, `
		INSERT INTO workspace_move AS w (workspace_id, move_id, state, other, public_address, changed_at) VALUES ($1, $2::uuid, 'copying', $3, nullif($4, ''), $5)
		    ON CONFLICT (workspace_id) DO UPDATE SET move_id = excluded.move_id, receiver = NULL, state = excluded.state, other = excluded.other,
		       public_address = excluded.public_address, changed_at = excluded.changed_at, fenced_at = NULL, opened_after = NULL,
		       position = NULL, chain = NULL, held = '{}', progress = '{}'`,
		m.cfg.WorkspaceID, r.id, m.cfg.To.Name, m.cfg.PublicAddress, m.now())
	if err != nil {
		return nil, fmt.Errorf("begin the move of %s: %w", m.cfg.WorkspaceID, err)
	}
	return r, m.audit(ctx, tx, "begins to move to "+m.cfg.To.Name)
}

// noteAddress stores the public address that this run was given, if any.
func noteAddress(ctx context.Context, m *Mover, tx pgx.Tx) error {
	if m.cfg.PublicAddress == "" {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE workspace_move SET public_address = $2 WHERE workspace_id = $1`, m.cfg.WorkspaceID, m.cfg.PublicAddress)
	if err != nil {
		return fmt.Errorf("note the address of the new place of %s: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}

// beginReceiving prepares the new place, or finds it prepared.
func beginReceiving(ctx context.Context, m *Mover, tx pgx.Tx, from *row) (*row, error) {
	r, err := m.lockRow(ctx, tx)
	if err != nil {
		return nil, err
	}
	switch {
	case m.is(r, receiving, ready, open, complete):
		return r, nil
	case m.is(r, abandoned):
		return nil, ErrUndone
	case m.is(r, copying, holding, fenced, moved):
		return nil, &TakenError{m.cfg.WorkspaceID, m.cfg.To.Name, "the old and the new place are the same database"}
	case from.state == moved, from.receiver != "":
		return nil, ErrOther
	case r == nil:
		return createReceiving(ctx, m, tx)
	case r.state == removed, r.state == receiving && r.other == m.cfg.From.Name, r.state == ready && r.other == m.cfg.From.Name:
		return receiveAgain(ctx, m, tx)
	}
	return nil, &TakenError{m.cfg.WorkspaceID, m.cfg.To.Name, fmt.Sprintf("its last move there is %q, with %s", r.state, r.other)}
}

// createReceiving creates the workspace at the new place, with a closed log.
func createReceiving(ctx context.Context, m *Mover, tx pgx.Tx) (*row, error) {
	var made bool
	if err := tx.QueryRow(ctx, `SELECT workspace_create($1, $1, $2)`, m.cfg.WorkspaceID, m.now()).Scan(&made); err != nil {
		return nil, fmt.Errorf("create %s at the new place: %w", m.cfg.WorkspaceID, err)
	}
	if !made {
		return nil, &TakenError{m.cfg.WorkspaceID, m.cfg.To.Name, "it was made there"}
	}
	if err := m.exec(ctx, tx, `UPDATE log_head SET closed_until = 'infinity' WHERE workspace_id = $1`); err != nil {
		return nil, err
	}
	return receiveAgain(ctx, m, tx)
}

// receiveAgain creates or resets the move's row at the new place, where the log is already closed.
func receiveAgain(ctx context.Context, m *Mover, tx pgx.Tx) (*row, error) {
	r := &row{id: m.id, receiver: uuid.NewString(), state: receiving}
	if err := m.exec(ctx, tx, `UPDATE workspace SET move = 'receiving', moved_to = NULL WHERE workspace_id = $1`); err != nil {
		return nil, err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO workspace_move AS w (workspace_id, move_id, receiver, state, other, changed_at) VALUES ($1, $2::uuid, $3::uuid, 'receiving', $4, $5)
		    ON CONFLICT (workspace_id) DO UPDATE SET move_id = excluded.move_id, receiver = excluded.receiver, state = excluded.state, other = excluded.other,
		       public_address = NULL, changed_at = excluded.changed_at, fenced_at = NULL, opened_after = NULL,
		       position = NULL, chain = NULL, held = '{}', progress = '{}'`,
		m.cfg.WorkspaceID, m.id, r.receiver, m.cfg.From.Name, m.now())
	if err != nil {
		return nil, fmt.Errorf("begin to receive %s: %w", m.cfg.WorkspaceID, err)
	}
	return r, nil
}

func (m *Mover) audit(ctx context.Context, tx pgx.Tx, detail string) error {
	return audit.Add(ctx, tx, m.now(), audit.Change{WorkspaceID: m.cfg.WorkspaceID, Action: audit.WorkspaceMove, ObjectID: m.cfg.WorkspaceID, Detail: detail})
}
