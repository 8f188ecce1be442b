package eventlog

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Workspace is one customer of the billing product.
type Workspace struct {
	ID          string
	Name        string // the id until set
	NotifyEmail string // addresses for mail about failing webhooks, as ParseNotifyEmail returns them; empty: none
	CreatedAt   time.Time
}

// Workspaces is the store of workspaces. It is safe for concurrent use.
type Workspaces struct {
	pool  pg.DB
	clock func() time.Time
}

// NewWorkspaces makes a store; the clock gives the time of creation.
func NewWorkspaces(pool pg.DB, clock func() time.Time) *Workspaces {
	return &Workspaces{pool: pool, clock: clock}
}

// WorkspaceExistsError says that there already is a workspace with this id.
type WorkspaceExistsError struct{ WorkspaceID string }

// Error names the workspace.
func (e *WorkspaceExistsError) Error() string {
	return fmt.Sprintf("there is a workspace %q already", e.WorkspaceID)
}

// Create makes a workspace with an empty log, in the caller's transaction. The error is a
// *WorkspaceExistsError if the workspace already exists. Appending creates workspaces, too; use
// Create to give one a name beforehand.
func (s *Workspaces) Create(ctx context.Context, tx pgx.Tx, w Workspace) error {
	var made bool
	err := tx.QueryRow(ctx, `SELECT workspace_create($1, $2, $3)`, w.ID, w.Name, s.clock()).Scan(&made)
	if err != nil {
		return fmt.Errorf("create workspace %s: %w", w.ID, err)
	}
	if !made {
		return &WorkspaceExistsError{w.ID}
	}
	if err := set(ctx, tx, w.ID, nil, &w.NotifyEmail); err != nil {
		return err
	}
	return audit.Add(ctx, tx, s.clock(), audit.Change{
		WorkspaceID: w.ID, Action: audit.WorkspaceCreate, ObjectID: w.ID, ObjectName: w.Name, Detail: mailDetail(w.NotifyEmail),
	})
}

// mailDetail says where mail about failing webhooks goes, for the audit trail.
func mailDetail(address string) string {
	if address == "" {
		return "mail about webhooks to nobody"
	}
	return "mail about webhooks to " + address
}

// Set changes a workspace's name, or its addresses for mail about failing webhooks (empty: none),
// in the caller's transaction. nil leaves a value as it is. The error is a
// *domain.UnknownWorkspaceError if there is no such workspace, and a *MovedError if another
// database has it.
func (s *Workspaces) Set(ctx context.Context, tx pgx.Tx, id string, name, notifyEmail *string) error {
	if err := MayChange(ctx, tx, id, false); err != nil {
		return err
	}
	var before string
	err := tx.QueryRow(ctx, `SELECT name FROM workspace WHERE workspace_id = $1 FOR NO KEY UPDATE`, id).Scan(&before)
	if errors.Is(err, pgx.ErrNoRows) {
		return &domain.UnknownWorkspaceError{WorkspaceID: id}
	}
	if err != nil {
		return fmt.Errorf("lock workspace %s: %w", id, err)
	}
	if err := set(ctx, tx, id, name, notifyEmail); err != nil {
		return err
	}
	c := audit.Change{WorkspaceID: id, Action: audit.WorkspaceSet, ObjectID: id, ObjectName: before}
	var details []string
	if name != nil {
		c.ObjectName = *name
		details = append(details, "name before: "+before)
	}
	if notifyEmail != nil {
		details = append(details, mailDetail(*notifyEmail))
	}
	c.Detail = strings.Join(details, "; ")
	return audit.Add(ctx, tx, s.clock(), c)
}

func set(ctx context.Context, tx pgx.Tx, id string, name, notifyEmail *string) error {
	_, err := tx.Exec(ctx, `
		UPDATE workspace SET name = coalesce($2, name),
		       notify_email = CASE WHEN $3::text IS NULL THEN notify_email ELSE nullif($3, '') END
		 WHERE workspace_id = $1`, id, name, notifyEmail)
	if err != nil {
		return fmt.Errorf("set workspace %s: %w", id, err)
	}
	return nil
}

// List returns all workspaces in the order of their ids.
func (s *Workspaces) List(ctx context.Context) ([]Workspace, error) {
	return s.read(ctx, "")
}

// Get returns one workspace. The error is a *domain.UnknownWorkspaceError if there is no such
// workspace.
func (s *Workspaces) Get(ctx context.Context, id string) (Workspace, error) {
	list, err := s.read(ctx, " WHERE workspace_id = $1", id)
	if err != nil {
		return Workspace{}, err
	}
	if len(list) == 0 {
		return Workspace{}, &domain.UnknownWorkspaceError{WorkspaceID: id}
	}
	return list[0], nil
}

func (s *Workspaces) read(ctx context.Context, where string, args ...any) ([]Workspace, error) {
	list, err := pg.Collect(ctx, s.pool, pgx.RowToStructByPos[Workspace], `
		SELECT workspace_id, name, coalesce(notify_email, ''), created_at FROM workspace`+where+` ORDER BY workspace_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read workspaces: %w", err)
	}
	for i := range list {
		list[i].CreatedAt = list[i].CreatedAt.UTC()
	}
	return list, nil
}

// IDs returns the ids of all workspaces, in order.
func (s *Workspaces) IDs(ctx context.Context) ([]string, error) {
	ids, err := pg.Collect(ctx, s.pool, pgx.RowTo[string], `SELECT workspace_id FROM workspace ORDER BY workspace_id`)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return ids, nil
}

const (
	maxWorkspaceName = 200 // characters
	maxNotify        = 5   // addresses
	maxNotifyLength  = 254 // characters of one address (RFC 5321)
)

// WorkspaceError tells a person what is wrong with a workspace's name or addresses.
type WorkspaceError struct{ Reason string }

func (e *WorkspaceError) Error() string { return e.Reason }

// CheckWorkspaceName checks a name. The error is a *WorkspaceError.
func CheckWorkspaceName(name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > maxWorkspaceName || !utf8.ValidString(name) {
		return &WorkspaceError{fmt.Sprintf("want 1 to %d characters", maxWorkspaceName)}
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return &WorkspaceError{"want no control characters"}
	}
	return nil
}

// ParseNotifyEmail reads mail addresses separated by commas, semicolons or line breaks, and returns
// them in the form of Workspace.NotifyEmail: separated by ", ", each once. An empty text has none.
// The error is a *WorkspaceError.
func ParseNotifyEmail(text string) (string, error) {
	var list []string
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == '\n' || r == '\r' }) {
		if one = strings.TrimSpace(one); one == "" || slices.Contains(list, one) {
			continue
		}
		a, err := mail.ParseAddress(one)
		if err != nil || a.Address != one || strings.ContainsAny(one, ` "`) || len(one) > maxNotifyLength {
			return "", &WorkspaceError{fmt.Sprintf("%q is not a mail address such as finance@example.com", one)}
		}
		list = append(list, one)
	}
	if len(list) > maxNotify {
		return "", &WorkspaceError{fmt.Sprintf("a workspace has %d addresses at most", maxNotify)}
	}
	return strings.Join(list, ", "), nil
}

// Values of the column workspace.move.
const (
	moved   = "moved"
	holding = "holding"
)

// MayChange makes sure that a workspace's keys, webhooks and names may be changed in tx: that no
// other database has the workspace or has begun to copy these. Until tx ends, no move passes the
// step after which changes would be lost. webhooks says that a webhook or a delivery is changed;
// that is also refused while deliveries are held for a move.
//
// The error is a *MovedError. A missing workspace is no error here: the caller finds that out. tx
// must have the isolation level read committed.
func MayChange(ctx context.Context, tx pgx.Tx, workspaceID string, webhooks bool) error {
	var move, to string
	// This conflicts only with a move, which locks the row FOR UPDATE before it changes it.
	err := tx.QueryRow(ctx, `
		SELECT coalesce(move, ''), coalesce(moved_to, '') FROM workspace WHERE workspace_id = $1 FOR KEY SHARE`, workspaceID).Scan(&move, &to)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look whether the workspace %s is being moved: %w", workspaceID, err)
	case move == "", move == holding && !webhooks:
		return nil
	}
	return &MovedError{WorkspaceID: workspaceID, To: to, Away: move == moved}
}
