package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Reasons for which the log refuses a well-formed entry.
var (
	// ErrOtherContent: the workspace holds an entry of this id with another
	// type or other data.
	ErrOtherContent = errors.New("the workspace holds this id with other content")

	// ErrBeforeNewest: the publish time is before that of the newest entry.
	ErrBeforeNewest = errors.New("created_at is before the workspace's newest entry")

	// ErrAhead: the publish time is more than MaxAhead in the future.
	ErrAhead = errors.New("created_at is more than 5 minutes ahead of now")
)

// MaxAhead is how far a publish time may be ahead of now (docs/contract/log.md, "An
// entry").
const MaxAhead = 5 * time.Minute

// ErrStoredForm is why a draft of a stored form cannot be appended but by Restore.
var ErrStoredForm = errors.New("stored in place of data: an entry without its detached fields is only taken when an export is restored")

var errUncheckedDraft = errors.New("not a checked draft: make it with domain.DecodeDraft or domain.NewDraft")

// RefusedError says which entry of an append was refused, and why. Nothing was appended.
type RefusedError struct {
	Index  int    // of the entry in the call
	ID     string // empty: the entry brought none
	Reason error  // one of the reasons above
	Detail string // the time it was compared with, if any
}

// Error names the entry and the reason.
func (e *RefusedError) Error() string {
	s := fmt.Sprintf("entry %s refused: %v", e.ID, e.Reason)
	if e.ID == "" {
		s = fmt.Sprintf("entry refused: %v", e.Reason)
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// outcomeError turns an outcome of log_append into an error; nil: it was appended or
// skipped. when is the time that the entry was compared with.
func outcomeError(name string, index int, id, when string) error {
	refused := func(reason error, detail string) error {
		return &RefusedError{Index: index, ID: id, Reason: reason, Detail: detail}
	}
	switch name {
	case "appended", "skipped":
		return nil
	case "other_content":
		return refused(ErrOtherContent, "")
	case "before_newest":
		return refused(ErrBeforeNewest, "the newest is of "+when)
	case "ahead":
		return refused(ErrAhead, "now is "+when)
	}
	return fmt.Errorf("log_append returned the outcome %q, which this program does not know", name)
}

// LockedError says that another transaction held a workspace's log for longer than
// the append waited. Nothing was appended.
type LockedError struct {
	WorkspaceID string
	Err         error // why the append stopped waiting
}

// Error says what to look for.
func (e *LockedError) Error() string {
	return fmt.Sprintf("nothing was appended to %s: another transaction has locked its log (%v); "+
		"end that transaction (pg_stat_activity shows it), or append again later", e.WorkspaceID, e.Err)
}

// Unwrap returns why the append stopped waiting.
func (e *LockedError) Unwrap() error { return e.Err }

// MovedError says that a workspace cannot be changed in this database: it has moved to another one,
// is being moved there, or is being moved here and is not open yet (docs/operations/moving.md).
// Nothing was appended or changed.
type MovedError struct {
	WorkspaceID string
	To          string // address of the API that has it now; empty: not known
	Away        bool   // it has moved; false: try again in some seconds
}

// Error says what to do.
func (e *MovedError) Error() string {
	switch {
	case !e.Away:
		return fmt.Sprintf("the workspace %s is being moved between databases, which takes some seconds; nothing was changed, try again", e.WorkspaceID)
	case e.To == "":
		return fmt.Sprintf("the workspace %s has moved to another database; nothing was changed here, do it there", e.WorkspaceID)
	}
	return fmt.Sprintf("the workspace %s has moved to %s; nothing was changed here, do it there", e.WorkspaceID, e.To)
}

// ClockError says that the caller's clock and the database's are more than 5
// minutes apart. Nothing was appended.
type ClockError struct{ Now, Database string }

// Error gives both times.
func (e *ClockError) Error() string {
	return "nothing was appended: " + e.Difference() + "; set the clocks right"
}

// Difference gives both times, for callers that do something other than append.
func (e *ClockError) Difference() string {
	return fmt.Sprintf("the clock of this program says %s and the database's %s, which is more than 5 minutes apart", e.Now, e.Database)
}

// Certain reports whether an error of an append proves that nothing was appended. It does if the
// database rejected the statement, because that rolls back its transaction. It does not if the
// error can come from a commit or replace the commit's answer.
func Certain(err error) bool {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*LockedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ClockError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*MovedError](err); ok {
		return true
	}
	return pg.RolledBack(err) || pg.Refused(err)
}

// SQLSTATEs of the functions that append.
const (
	codeRefused = "LF001" // of log_publish
	codeClock   = "LF003" // of log_append
	codeClosed  = "LF009" // of log_append
)

// AppendError finds the *RefusedError, *LockedError, *ClockError or *MovedError in an error of
// PublishQuery, of its statement, or of another statement that appends. It returns
// every other error as it is.
func AppendError(workspaceID string, err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	// Without the JSON detail, the code comes from another program, and the error stays as it is.
	switch {
	case pgErr.Code == codeRefused:
		var detail struct {
			Index   int    `json:"index"`
			ID      string `json:"id"`
			Outcome string `json:"outcome"`
			Against string `json:"against"`
		}
		if json.Unmarshal([]byte(pgErr.Detail), &detail) == nil {
			return outcomeError(detail.Outcome, detail.Index, detail.ID, detail.Against)
		}
	case pgErr.Code == codeClock:
		var detail struct {
			Now      string `json:"now"`
			Database string `json:"database"`
		}
		if json.Unmarshal([]byte(pgErr.Detail), &detail) == nil {
			return &ClockError{Now: detail.Now, Database: detail.Database}
		}
	case pgErr.Code == codeClosed:
		var detail struct {
			Workspace string `json:"workspace"`
			Move      string `json:"move"`
			To        string `json:"to"`
		}
		if json.Unmarshal([]byte(pgErr.Detail), &detail) == nil {
			return &MovedError{WorkspaceID: detail.Workspace, To: detail.To, Away: detail.Move == moved}
		}
	case pg.Locked(err):
		return &LockedError{WorkspaceID: workspaceID, Err: err}
	}
	return err
}

// Unknown returns the workspaces that do not exist, in the order given.
func (l *Log) Unknown(ctx context.Context, workspaceIDs ...string) (unknown []string, err error) {
	if len(workspaceIDs) == 0 {
		return nil, nil
	}
	unknown, err = pg.Collect(ctx, l.pool, pgx.RowTo[string], `SELECT k.id FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)
		 WHERE (SELECT w.workspace_id FROM workspace w WHERE w.workspace_id = k.id) IS NULL ORDER BY k.n`, workspaceIDs)
	if pg.Forbidden(err) {
		// A producer's account may only append. This log_append appends nothing, because it expects
		// a position that no log has. Only a workspace that does not exist gives outcomes and no
		// head.
		unknown, err = pg.Collect(ctx, l.pool, pgx.RowTo[string], `SELECT k.id FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)
			 CROSS JOIN LATERAL log_append(k.id, $2, -1, true, '{}', '{}', '{}', '{}', '{}', '{}', '{}', 0) AS a
			 WHERE a.head IS NULL AND a.outcomes IS NOT NULL ORDER BY k.n`, workspaceIDs, l.clock())
	}
	if err != nil {
		return nil, fmt.Errorf("look for workspaces: %w", AppendError("", err))
	}
	return unknown, nil
}
