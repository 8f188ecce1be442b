package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// session is a signed-in person in one workspace.
type session struct {
	hash          []byte
	WorkspaceID   string
	WorkspaceName string
	Person        string
	Role          Role
	Grants        []Grant // the workspaces to which they may switch, this one among them
	SeenAt        time.Time
	ExpiresAt     time.Time // the absolute limit
}

// MayChange tells whether the person may change anything.
func (s *session) MayChange() bool { return s.Role == Admin }

// touchEvery is how exact seen_at is: not every request writes.
const touchEvery = time.Minute

// errNoSession means that nobody is signed in with a token.
var errNoSession = errors.New("there is no such session")

// open begins a session and returns its token. Grants holds every workspace
// that the person may look at; current must be one of them. The absolute
// limit is counted from began, so that switching does not prolong a session.
func (d *Door) open(ctx context.Context, person, current string, grants []Grant, began time.Time) (token string, expires time.Time, err error) {
	i := slices.IndexFunc(grants, func(g Grant) bool { return g.Workspace == current })
	if i < 0 {
		return "", expires, fmt.Errorf("begin a session: %s has no role in %s", person, current)
	}
	token, hash, err := d.token()
	if err != nil {
		return "", expires, err
	}
	list, err := json.Marshal(grants)
	if err != nil {
		return "", expires, fmt.Errorf("begin a session: %w", err)
	}
	now := d.now()
	expires = began.Add(d.cfg.Absolute)
	if _, err := d.cfg.Pool.Exec(ctx, `DELETE FROM console_session WHERE expires_at <= $1`, now); err != nil {
		return "", expires, fmt.Errorf("remove old sessions: %w", err)
	}
	_, err = d.cfg.Pool.Exec(ctx, `
		INSERT INTO console_session (workspace_id, hash, person, role, grants, created_at, seen_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $6, $7)`, current, hash, person, string(grants[i].Role), list, now, expires)
	if isForeignKey(err) {
		return "", expires, &domain.UnknownWorkspaceError{WorkspaceID: current}
	}
	if err != nil {
		return "", expires, fmt.Errorf("begin a session: %w", err)
	}
	return token, expires, nil
}

// find gives the session of a token. With touch the idle limit is counted anew
// from now; a page that renews itself does not touch. The error is
// errNoSession, or the database's.
func (d *Door) find(ctx context.Context, token string, touch bool) (*session, error) {
	now := d.now()
	s := &session{hash: hashOf(token)}
	err := d.cfg.Pool.QueryRow(ctx, `
		SELECT s.workspace_id, w.name, s.person, s.role, s.grants, s.seen_at, s.expires_at
		  FROM console_session s JOIN workspace w ON w.workspace_id = s.workspace_id
		 WHERE s.hash = $1 AND s.expires_at > $2 AND s.seen_at > $3`, s.hash, now, now.Add(-d.cfg.Idle)).
		Scan(&s.WorkspaceID, &s.WorkspaceName, &s.Person, &s.Role, &s.Grants, &s.SeenAt, &s.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, fmt.Errorf("look for a session: %w", err)
	}
	if touch && now.Sub(s.SeenAt) >= touchEvery {
		if _, err := d.cfg.Pool.Exec(ctx, `
			UPDATE console_session SET seen_at = $3 WHERE workspace_id = $1 AND hash = $2`, s.WorkspaceID, s.hash, now); err != nil {
			return nil, fmt.Errorf("note that a session is used: %w", err)
		}
	}
	return s, nil
}

// end ends a session. Ending one that is over is no error.
func (d *Door) end(ctx context.Context, s *session) error {
	_, err := d.cfg.Pool.Exec(ctx, `DELETE FROM console_session WHERE workspace_id = $1 AND hash = $2`, s.WorkspaceID, s.hash)
	if err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// began is when the person signed in.
func (d *Door) began(s *session) time.Time { return s.ExpiresAt.Add(-d.cfg.Absolute) }

// workspaces gives the names of workspaces that exist, by id; with none given,
// of all.
func (d *Door) workspaces(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := d.cfg.Pool.Query(ctx, `SELECT workspace_id, name FROM workspace WHERE $1::text[] IS NULL OR workspace_id = ANY ($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read workspaces: %w", err)
	}
	names := map[string]string{}
	var id, name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read workspaces: %w", err)
	}
	return names, nil
}
