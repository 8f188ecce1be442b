package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// An entry that forgets somebody is appended like any other. log_append notes it in log_forgotten in
// the same transaction. Once the read models have the entry, the detached values of the entries
// before it are deleted, slice by slice, in transactions of their own. If the process ends, another
// one continues.

const (
	// forgetSlice is how many positions one transaction looks at.
	forgetSlice = 2000
	// forgetEvery is how often serving processes look for deletions that have not ended.
	forgetEvery = 5 * time.Second
)

// Forgotten says how far the deletion of somebody's values has come.
type Forgotten struct {
	Position int64      // of the entry that forgets
	Deleted  int64      // values
	Ended    *time.Time // nil: it has not ended
	Skipped  bool       // an operator made the read models skip the entry, so nothing is deleted
}

// Forget deletes the detached values of everybody whom entries of a workspace forget that the read
// models have. An interrupted call is continued by the next one, or by a serving process. While
// another one is at it, it returns at once: see ForgottenBy.
func (l *Log) Forget(ctx context.Context, workspaceID string) error {
	for more := true; more; {
		var err error
		if more, err = forget(ctx, l.pool, workspaceID); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes one slice, and leaves the database to others for as long as that took. more says
// that there are further slices.
func forget(ctx context.Context, pool pg.DB, workspaceID string) (more bool, err error) {
	began := time.Now()
	if err := pool.QueryRow(ctx, `SELECT log_forget($1, $2)`, workspaceID, forgetSlice).Scan(&more); err != nil {
		return false, fmt.Errorf("delete the detached values of %s: %w", workspaceID, err)
	}
	if !flow.Sleep(ctx, time.Since(began)) {
		return false, context.Cause(ctx)
	}
	return more, nil
}

// ForgottenBy returns how far the deletion is that the entry at a position began. The error is
// pgx.ErrNoRows if the entry forgets nobody.
func (l *Log) ForgottenBy(ctx context.Context, workspaceID string, position int64) (*Forgotten, error) {
	f := &Forgotten{Position: position}
	err := l.pool.QueryRow(ctx, `
		SELECT f.deleted, f.ended_at, EXISTS (SELECT FROM log_skip k WHERE k.workspace_id = f.workspace_id AND k.consumer = 'read_models' AND k.position = f.position)
		  FROM log_forgotten f WHERE f.workspace_id = $1 AND f.position = $2`, workspaceID, position).Scan(&f.Deleted, &f.Ended, &f.Skipped)
	if err != nil {
		return nil, fmt.Errorf("look how far a deletion is: %w", err)
	}
	return f, nil
}

// ForgottenAt returns the position of the newest entry that forgets a subject; 0: nobody has forgotten
// it, or the log has values about it that no such entry deletes.
func (l *Log) ForgottenAt(ctx context.Context, workspaceID string, s Subject) (position int64, err error) {
	err = l.pool.QueryRow(ctx, `
		SELECT coalesce(max(f.position), 0) FROM log_forgotten f WHERE f.workspace_id = $1 AND f.subject = $2
		   AND NOT EXISTS (SELECT FROM log_skip k WHERE k.workspace_id = $1 AND k.consumer = 'read_models' AND k.position = f.position)
		   AND NOT EXISTS (SELECT FROM log_detached d WHERE d.workspace_id = $1 AND d.position > f.position AND $2 = ANY (string_to_array(d.subject, ' ')))`,
		workspaceID, s.String()).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("look whether the %s %s is forgotten: %w", s.Kind, s.ID, err)
	}
	return position, nil
}

// WalkForgotten calls do with every entry that forgets somebody, in all workspaces.
func (l *Log) WalkForgotten(ctx context.Context, do func(*domain.Entry) error) error {
	rows, err := l.pool.Query(ctx, `
		SELECT e.position, e.id, e.type, e.created_at, e.data::text, e.chain, NULL::bytea, NULL::text, e.workspace_id FROM log_forgotten f CROSS JOIN LATERAL (
		       SELECT * FROM event_log e WHERE e.workspace_id = f.workspace_id AND e.position BETWEEN f.position AND f.position ORDER BY e.position LIMIT 1) AS e
		 ORDER BY f.workspace_id, f.position`)
	if err != nil {
		return fmt.Errorf("read who was forgotten: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e domain.Entry
		if err := scanEntry(rows, &e, &e.WorkspaceID); err != nil {
			return err
		}
		if err := do(&e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read who was forgotten: %w", err)
	}
	return nil
}

// Forgetter continues deletions that have not ended, in all workspaces.
type Forgetter struct {
	pool   pg.DB
	outage flow.Outage
}

// NewForgetter makes a Forgetter.
func NewForgetter(pool pg.DB, logger *slog.Logger) *Forgetter {
	return &Forgetter{pool: pool, outage: flow.Outage{
		Logger: logger, Failing: "values of forgotten people cannot be deleted; it is tried again", Working: "values of forgotten people are deleted again",
	}}
}

// Run works until ctx ends.
func (f *Forgetter) Run(ctx context.Context) error {
	flow.Repeat(ctx, forgetEvery, &f.outage, f.once, func(error) {})
	return nil
}

func (f *Forgetter) once(ctx context.Context) error {
	workspaces, err := pg.Collect(ctx, f.pool, pgx.RowTo[string], `SELECT DISTINCT workspace_id FROM log_forgotten WHERE ended_at IS NULL`)
	if err != nil {
		return fmt.Errorf("look for deletions that have not ended: %w", err)
	}
	// A slice of each in turn: neither a long deletion nor one that fails delays those of others.
	var failed error
	for len(workspaces) > 0 {
		var left []string
		for _, w := range workspaces {
			more, err := forget(ctx, f.pool, w)
			if failed = errors.Join(failed, err); more {
				left = append(left, w)
			}
		}
		workspaces = left
	}
	return failed
}

// Subject is a client or contractor whose detached values can be found, exported and forgotten.
type Subject struct {
	Kind string // client or contractor
	ID   string
}

// The kinds of subjects.
const (
	SubjectClient     = "client"
	SubjectContractor = "contractor"
)

func (s Subject) String() string { return s.Kind + ":" + s.ID }

// ForgetDraft is the entry that forgets somebody. The reason may be empty; it is never deleted.
func ForgetDraft(workspaceID string, s Subject, reason string) (domain.Draft, error) {
	data := map[string]string{s.Kind + "_id": s.ID}
	if reason != "" {
		data["reason"] = reason
	}
	text, err := json.Marshal(data)
	if err != nil {
		return domain.Draft{}, fmt.Errorf("write the entry: %w", err)
	}
	draft, err := domain.NewDraft(workspaceID, s.Kind+".forgotten", text)
	if err == nil {
		draft.ID, err = NewID()
	}
	return draft, err
}

var errNotOfTheList = errors.New("the line is not of the list that ledgerfeed person forget keeps: want entries " +
	domain.TypeClientForgotten + " and " + domain.TypeContractorForgotten + ", with their ids and times")

// DecodeForgotten reads a line of the list of those who were forgotten: an entry as the log has it.
func DecodeForgotten(line []byte) (domain.Draft, Subject, error) {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return domain.Draft{}, Subject{}, err
	}
	if d.Type != domain.TypeClientForgotten && d.Type != domain.TypeContractorForgotten || d.ID == "" || d.CreatedAt.IsZero() {
		return domain.Draft{}, Subject{}, errNotOfTheList
	}
	e := d.Entry()
	kind, id := e.Object()
	return d, Subject{Kind: kind, ID: id}, nil
}

// AppendForgotten appends an entry of ForgetDraft, with its line in the audit trail.
func (l *Log) AppendForgotten(ctx context.Context, s Subject, draft domain.Draft) (receipt Receipt, err error) {
	err = pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		receipts, err := l.AppendTx(ctx, tx, draft)
		if err != nil {
			return err
		}
		receipt = receipts[0]
		return audit.Add(ctx, tx, l.clock(), audit.Change{
			WorkspaceID: draft.WorkspaceID, Action: audit.PersonForget, ObjectID: s.ID, ObjectName: s.Kind + " " + s.ID, Detail: fmt.Sprintf("the entry %s at position %d", receipt.ID, receipt.Position),
		})
	})
	return receipt, err
}

// WalkSubject calls do with every entry of a workspace that has a detached value about a subject,
// oldest first.
func (l *Log) WalkSubject(ctx context.Context, workspaceID string, s Subject, do func(*domain.Entry) error) error {
	return l.walkDetached(ctx, workspaceID, s.String(), func(e *domain.Entry, _ string) error { return do(e) })
}

// FindText calls do with every entry of a workspace in whose detached value a text is, and with whom the
// value is about, oldest first. Upper and lower case, accents, and the punctuation of phone numbers make no
// difference.
func (l *Log) FindText(ctx context.Context, workspaceID, text string, do func(e *domain.Entry, subjects string) error) error {
	found := searchFor(text)
	return l.walkDetached(ctx, workspaceID, "", func(e *domain.Entry, subjects string) error {
		if !found(e.Value) {
			return nil
		}
		return do(e, subjects)
	})
}

// walkDetached walks the entries with a detached value about a subject, or all if it is empty. It
// reads slices of positions, so that no statement takes long.
func (l *Log) walkDetached(ctx context.Context, workspaceID, subject string, do func(*domain.Entry, string) error) error {
	const slice = 500 // positions, because an entry may have 64 KiB
	head, err := l.Head(ctx, workspaceID)
	if err != nil {
		return err
	}
	for after := int64(0); after < head.Position; after += slice {
		var (
			entries  []domain.Entry
			subjects []string // of each
		)
		err := queryInOrder(ctx, l.pool, func(rows pgx.Rows) error {
			for rows.Next() {
				e, about := domain.Entry{WorkspaceID: workspaceID}, ""
				if err := scanEntry(rows, &e, &about); err != nil {
					return err
				}
				entries, subjects = append(entries, e), append(subjects, about)
			}
			return rows.Err()
		}, `
			SELECT `+entryColumns+`, d.subject FROM log_detached d CROSS JOIN LATERAL (
			       SELECT * FROM event_log e WHERE e.workspace_id = d.workspace_id AND e.position BETWEEN d.position AND d.position ORDER BY e.position LIMIT 1) AS e
			 WHERE d.workspace_id = $1 AND d.position > $2 AND d.position <= $3 AND ($4 = '' OR $4 = ANY (string_to_array(d.subject, ' '))) ORDER BY d.position`,
			workspaceID, after, after+slice, subject)
		if err != nil {
			return fmt.Errorf("read the detached values of %s: %w", workspaceID, err)
		}
		for i := range entries {
			if err := do(&entries[i], subjects[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
