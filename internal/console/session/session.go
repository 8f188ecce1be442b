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
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// Person is who is signed in.
type Person struct {
	Name string // for people

	// Issuer and Subject are as in audit.Actor: they tell people apart whatever their
	// names are.
	Issuer, Subject string
}

// Actor is the person in the audit trail.
func (p Person) Actor() audit.Actor {
	return audit.Actor{Via: audit.ViaConsole, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject}
}

// Session is a signed-in person in one workspace.
type Session struct {
	hash          []byte
	WorkspaceID   string
	WorkspaceName string
	Person
	Role      Role
	Grants    []Grant // the workspaces that the person may switch to, this one among them
	SeenAt    time.Time
	ExpiresAt time.Time // the absolute limit
}

// MayChange tells whether the person may change anything.
func (s *Session) MayChange() bool { return s.Role == Admin }

// MaySeePay tells whether the person may see what contractors are paid, and margins. A
// viewer may not: only an admin can make a key with pay:read.
func (s *Session) MaySeePay() bool { return s.Role == Admin }

// touchInterval is the precision of seen_at, so that not every request writes.
const touchInterval = time.Minute

// ErrNone reports that a token belongs to no session, or to one that has ended.
var ErrNone = errors.New("there is no such session")

// Opening is a session that begins.
type Opening struct {
	Person      Person
	WorkspaceID string    // one of those of Grants
	Grants      []Grant   // every workspace that the person may look at
	SignedIn    time.Time // the absolute limit counts from here, so that switching workspaces does not prolong a session
	How         string    // for the audit trail
	Replaces    *Session  // ends in the same transaction; nil: none
}

// Open starts a session, with a line in the audit trail, and returns its token.
func (s *Store) Open(ctx context.Context, o Opening) (token string, expires time.Time, err error) {
	i := slices.IndexFunc(o.Grants, func(g Grant) bool { return g.Workspace == o.WorkspaceID })
	if i < 0 {
		return "", expires, fmt.Errorf("cannot start a session: %s has no role in %s", o.Person.Name, o.WorkspaceID)
	}
	if token, err = s.Token(); err != nil {
		return "", expires, err
	}
	list, err := json.Marshal(o.Grants)
	if err != nil {
		return "", expires, fmt.Errorf("cannot start a session: %w", err)
	}
	now := s.now()
	expires = o.SignedIn.Add(s.cfg.Absolute)
	if err := removeExpired(ctx, s, "console_session", now); err != nil {
		return "", expires, fmt.Errorf("cannot remove expired sessions: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if o.Replaces != nil {
			if err := end(ctx, tx, o.Replaces); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO console_session (workspace_id, hash, person, issuer, subject, role, grants, created_at, seen_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9)`,
			o.WorkspaceID, hashOf(token), o.Person.Name, o.Person.Issuer, o.Person.Subject, string(o.Grants[i].Role), list, now, expires)
		if isForeignKey(err) {
			return &domain.UnknownWorkspaceError{WorkspaceID: o.WorkspaceID}
		}
		if err != nil {
			return fmt.Errorf("cannot start a session: %w", err)
		}
		return audit.Add(audit.As(ctx, o.Person.Actor()), tx, now, audit.Change{WorkspaceID: o.WorkspaceID, Action: audit.SignIn, Detail: o.How})
	})
	if err != nil {
		return "", expires, err
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
		SELECT s.workspace_id, w.name, s.person, s.issuer, s.subject, s.role, s.grants, s.seen_at, s.expires_at
		  FROM console_session s JOIN workspace w ON w.workspace_id = s.workspace_id
		 WHERE s.hash = $1 AND s.expires_at > $2 AND s.seen_at > $3`, found.hash, now, now.Add(-s.cfg.Idle)).
		Scan(&found.WorkspaceID, &found.WorkspaceName, &found.Name, &found.Issuer, &found.Subject, &found.Role, &found.Grants, &found.SeenAt, &found.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a session: %w", err)
	}
	if touch && now.Sub(found.SeenAt) >= touchInterval {
		if _, err := s.cfg.Pool.Exec(ctx, `
			UPDATE console_session SET seen_at = $3 WHERE workspace_id = $1 AND hash = (
			       SELECT hash FROM console_session WHERE workspace_id = $1 AND hash = $2 FOR UPDATE SKIP LOCKED)`, found.WorkspaceID, found.hash, now); err != nil {
			return nil, fmt.Errorf("cannot update a session: %w", err)
		}
	}
	return found, nil
}

// SignOut ends a session, with a line in the audit trail. It may have ended already.
func (s *Store) SignOut(ctx context.Context, ended *Session) error {
	return pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if err := end(ctx, tx, ended); err != nil {
			return err
		}
		return audit.Add(audit.As(ctx, ended.Actor()), tx, s.now(), audit.Change{WorkspaceID: ended.WorkspaceID, Action: audit.SignOut})
	})
}

func end(ctx context.Context, tx pgx.Tx, ended *Session) error {
	_, err := tx.Exec(ctx, `DELETE FROM console_session WHERE workspace_id = $1 AND hash = $2`, ended.WorkspaceID, ended.hash)
	if err != nil {
		return fmt.Errorf("cannot end a session: %w", err)
	}
	return nil
}

// SignedIn is when the person of a session signed in.
func (s *Store) SignedIn(of *Session) time.Time { return of.ExpiresAt.Add(-s.cfg.Absolute) }
