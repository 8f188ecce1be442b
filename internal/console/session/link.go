package session

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// LinkLifetime is how long a sign-in link works if it is not used.
const LinkLifetime = 10 * time.Minute

// Link is a sign-in link.
type Link struct {
	WorkspaceID   string
	ID            string // for the audit trail; only of links that were found
	WorkspaceName string // only of links that were found
	Role          Role   // empty for CreateLink: Admin
	Person        string // the name of the person it signs in; empty for CreateLink: "Guest"
	Embed         bool   // it opens a frame of a product, and nothing else
}

// Paths of links, which their tokens follow.
const (
	SignInPath = "/sign-in/"
	EmbedPath  = "/embed/"
)

// hashOf is of the token and of what the link is for: neither kind works as the other.
func (l *Link) hashOf(token string) []byte {
	if l.Embed {
		return hashOf(EmbedPath + token)
	}
	return hashOf(token)
}

// CreateLink makes a sign-in link that works once, within LinkLifetime, and
// returns its path, which follows the console's address. Errors:
// *domain.UnknownWorkspaceError.
func (s *Store) CreateLink(ctx context.Context, l Link) (path string, expires time.Time, err error) {
	if l.Role == "" {
		l.Role = Admin
	}
	if l.Person = strings.TrimSpace(l.Person); l.Person == "" {
		l.Person = "Guest"
	}
	if _, ok := ParseRole(string(l.Role)); !ok {
		return "", expires, fmt.Errorf("cannot make a sign-in link: there is no role %q", l.Role)
	}
	token, err := s.Token()
	if err != nil {
		return "", expires, err
	}
	now, hash := s.now(), l.hashOf(token)
	expires = now.Add(LinkLifetime)
	detail := "for the role " + string(l.Role)
	path = SignInPath + token
	if l.Embed {
		detail, path = detail+", in a frame", EmbedPath+token
	}
	if err := removeExpired(ctx, s, "console_link", now); err != nil {
		return "", expires, fmt.Errorf("cannot remove expired sign-in links: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO console_link (workspace_id, hash, person, role, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			l.WorkspaceID, hash, l.Person, string(l.Role), now, expires)
		if isForeignKey(err) {
			return &domain.UnknownWorkspaceError{WorkspaceID: l.WorkspaceID}
		}
		if err != nil {
			return fmt.Errorf("cannot save a sign-in link: %w", err)
		}
		return audit.Add(ctx, tx, now, audit.Change{
			WorkspaceID: l.WorkspaceID, Action: audit.LinkCreate, ObjectID: linkID(hash), ObjectName: l.Person, Detail: detail,
		})
	})
	if err != nil {
		return "", expires, err
	}
	return path, expires, nil
}

// linkID is the id of a link, which the audit trail has: it does not open anything.
func linkID(hash []byte) string { return "link_" + hex.EncodeToString(hash[:8]) }

// ErrLink reports that a link does not work: it was used, it has expired, or it
// never existed. Callers do not learn which.
var ErrLink = errors.New("this sign-in link does not work any more")

// FindLink returns the link of a token without using it up, because programs that
// preview links open them, too. The error is ErrLink, or the database's.
func (s *Store) FindLink(ctx context.Context, token string) (*Link, error) {
	return s.readLink(ctx, `
		SELECT l.workspace_id, w.name, l.person, l.role FROM console_link l
		  JOIN workspace w ON w.workspace_id = l.workspace_id
		 WHERE l.hash = $1 AND l.expires_at > $2`, &Link{}, token)
}

// UseLink returns the link of a token and uses it up. The error is ErrLink, or the
// database's.
func (s *Store) UseLink(ctx context.Context, token string) (*Link, error) {
	return s.useLink(ctx, &Link{}, token)
}

// UseEmbedLink is UseLink for a link with Embed.
func (s *Store) UseEmbedLink(ctx context.Context, token string) (*Link, error) {
	return s.useLink(ctx, &Link{Embed: true}, token)
}

func (s *Store) useLink(ctx context.Context, l *Link, token string) (*Link, error) {
	hash := l.hashOf(token)
	var in string
	err := s.cfg.Pool.QueryRow(ctx, `SELECT workspace_id FROM console_link WHERE hash = $1`, hash).Scan(&in)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrLink
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find a sign-in link: %w", err)
	}
	return s.readLink(ctx, `
		DELETE FROM console_link l USING workspace w
		 WHERE l.workspace_id = $3 AND l.hash = $1 AND l.expires_at > $2 AND w.workspace_id = $3
		RETURNING l.workspace_id, w.name, l.person, l.role`, l, token, in)
}

// readLink completes l, whose kind is known.
func (s *Store) readLink(ctx context.Context, sql string, l *Link, token string, more ...any) (*Link, error) {
	hash := l.hashOf(token)
	l.ID = linkID(hash)
	err := s.cfg.Pool.QueryRow(ctx, sql, append([]any{hash, s.now()}, more...)...).Scan(&l.WorkspaceID, &l.WorkspaceName, &l.Person, &l.Role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrLink
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a sign-in link: %w", err)
	}
	return l, nil
}
