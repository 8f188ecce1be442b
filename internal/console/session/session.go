package session

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

// Session is a signed-in person in one workspace.
type Session struct {
	hash          []byte
	WorkspaceID   string
	WorkspaceName string
	Person        string
	Role          Role
	Grants        []Grant // the workspaces that the person may switch to, this one among them
	SeenAt        time.Time
	ExpiresAt     time.Time // the absolute limit
}

// MayChange tells whether the person may change anything.
func (s *Session) MayChange() bool { return s.Role == Admin }

// touchInterval is the precision of seen_at, so that not every request writes.
const touchInterval = time.Minute

// ErrNone reports that a token belongs to no session, or to one that has ended.
var ErrNone = errors.New("there is no such session")

// Open starts a session and returns its token. Grants holds every workspace that
// the person may look at; current must be one of them. The absolute limit counts
// from signedIn, so that switching workspaces does not prolong a session.
func (s *Store) Open(ctx context.Context, person, current string, grants []Grant, signedIn time.Time) (token string, expires time.Time, err error) {
	i := slices.IndexFunc(grants, func(g Grant) bool { return g.Workspace == current })
	if i < 0 {
		return "", expires, fmt.Errorf("cannot start a session: %s has no role in %s", person, current)
	}
	if token, err = s.Token(); err != nil {
		return "", expires, err
	}
	list, err := json.Marshal(grants)
	if err != nil {
		return "", expires, fmt.Errorf("cannot start a session: %w", err)
	}
	now := s.now()
	expires = signedIn.Add(s.cfg.Absolute)
	if _, err := s.cfg.Pool.Exec(ctx, `DELETE FROM console_session WHERE expires_at <= $1`, now); err != nil {
		return "", expires, fmt.Errorf("cannot remove expired sessions: %w", err)
	}
	_, err = s.cfg.Pool.Exec(ctx, `
		INSERT INTO console_session (workspace_id, hash, person, role, grants, created_at, seen_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $6, $7)`, current, hashOf(token), person, string(grants[i].Role), list, now, expires)
	if isForeignKey(err) {
		return "", expires, &domain.UnknownWorkspaceError{WorkspaceID: current}
	}
	if err != nil {
		return "", expires, fmt.Errorf("cannot start a session: %w", err)
	}
	return token, expires, nil
}

// Find returns the session of a token. With touch, the idle limit counts from now
// again; requests of a page that renews itself do not touch. The error is ErrNone,
// or the database's.
func (s *Store) Find(ctx context.Context, token string, touch bool) (*Session, error) {
	now := s.now()
	found := &Session{hash: hashOf(token)}
	err := s.cfg.Pool.QueryRow(ctx, `
		SELECT s.workspace_id, w.name, s.person, s.role, s.grants, s.seen_at, s.expires_at
		  FROM console_session s JOIN workspace w ON w.workspace_id = s.workspace_id
		 WHERE s.hash = $1 AND s.expires_at > $2 AND s.seen_at > $3`, found.hash, now, now.Add(-s.cfg.Idle)).
		Scan(&found.WorkspaceID, &found.WorkspaceName, &found.Person, &found.Role, &found.Grants, &found.SeenAt, &found.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a session: %w", err)
	}
	if touch && now.Sub(found.SeenAt) >= touchInterval {
		if _, err := s.cfg.Pool.Exec(ctx, `
			UPDATE console_session SET seen_at = $3 WHERE workspace_id = $1 AND hash = $2`, found.WorkspaceID, found.hash, now); err != nil {
			return nil, fmt.Errorf("cannot update a session: %w", err)
		}
	}
	return found, nil
}

// End ends a session. It may have ended already.
func (s *Store) End(ctx context.Context, ended *Session) error {
	_, err := s.cfg.Pool.Exec(ctx, `DELETE FROM console_session WHERE workspace_id = $1 AND hash = $2`, ended.WorkspaceID, ended.hash)
	if err != nil {
		return fmt.Errorf("cannot end a session: %w", err)
	}
	return nil
}

// SignedIn is when the person of a session signed in.
func (s *Store) SignedIn(of *Session) time.Time { return of.ExpiresAt.Add(-s.cfg.Absolute) }
