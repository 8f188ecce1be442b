// Package session keeps who is signed in to the console: sign-in links, sessions,
// and the role that a person has in a workspace. Any number of processes may
// share a database.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Person is a person who signs in.
type Person struct {
	Name string // for people

	// Issuer and Subject are as in audit.Actor: they identify people whose names may be the same.
	Issuer, Subject string
}

// Actor returns the person as the audit trail names them.
func (p Person) Actor() audit.Actor {
	return audit.Actor{Via: audit.ViaConsole, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject}
}

// Session is a signed-in person in one workspace.
type Session struct {
	hash          []byte
	store         *Store // where it is stored
	WorkspaceID   string
	WorkspaceName string
	Person
	Role      Role
	Grants    []Grant // the workspaces that the person may switch to, including this one
	SeenAt    time.Time
	ExpiresAt time.Time // the absolute limit
}

// MayChange reports whether the person may change anything.
func (s *Session) MayChange() bool { return s.Role == Admin }

// MaySeePay reports whether the person may see margins and what contractors are paid. A viewer may
// not, because only an admin can create a key with pay:read.
func (s *Session) MaySeePay() bool { return s.Role == Admin }

// touchInterval is the precision of seen_at, so that not every request writes.
const touchInterval = time.Minute

// ErrNone reports that a token belongs to no session, or to one that has ended.
var ErrNone = errors.New("there is no such session")

// Opening describes a session to open.
type Opening struct {
	Person      Person
	WorkspaceID string    // one of the workspaces in Grants
	Grants      []Grant   // every workspace that the person may open
	SignedIn    time.Time // the absolute limit counts from here, so switching workspaces does not prolong a session
	How         string    // for the audit trail
	Replaces    *Session  // ended in the same transaction; nil: none
}

// Store keeps sign-in links and sessions in the database. It is safe for
// concurrent use.
type Store struct {
	cfg Config
}

// Open starts a session, with a line in the audit trail, and returns its token. The database of the
// workspace keeps it.
func (s *Store) Open(ctx context.Context, o Opening) (token string, expires time.Time, err error) {
	holder, err := s.holderOf(ctx, o.WorkspaceID)
	if err != nil {
		return "", expires, err
	}
	replaced := o.Replaces
	if replaced != nil && replaced.store != holder {
		o.Replaces = nil
	}
	if token, expires, err = holder.open(ctx, o); err != nil || replaced == o.Replaces {
		return token, expires, err
	}
	// The old session is in another database. If that database is down, ignore it: the browser no
	// longer has the token, and the session expires.
	limited, cancel := context.WithTimeout(ctx, otherTimeout)
	defer cancel()
	_ = pgx.BeginFunc(limited, replaced.store.cfg.Pool, func(tx pgx.Tx) error { return end(limited, tx, replaced) })
	return token, expires, nil
}

func (s *Store) open(ctx context.Context, o Opening) (token string, expires time.Time, err error) {
	i := slices.IndexFunc(o.Grants, func(g Grant) bool { return g.Workspace == o.WorkspaceID })
	if i < 0 {
		return "", expires, fmt.Errorf("cannot start a session: %s has no role in %s", o.Person.Name, o.WorkspaceID)
	}
	if token, err = s.token(); err != nil {
		return "", expires, err
	}
	list, err := json.Marshal(o.Grants)
	if err != nil {
		return "", expires, fmt.Errorf("cannot start a session: %w", err)
	}
	now := s.now()
	expires = o.SignedIn.Add(absoluteLimit)
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

// FindAnywhere is Find for a session that may be in another database.
func (s *Store) FindAnywhere(ctx context.Context, token string) (*Session, error) {
	others := s.others()
	at := slices.IndexFunc(others, func(other *Store) bool { return other.cfg.Cell == CellOf(token) })
	if at < 0 {
		return s.Find(ctx, token, false)
	}
	limited, cancel := context.WithTimeout(ctx, otherTimeout)
	defer cancel()
	return others[at].Find(limited, token, false)
}

// Find returns the session of a token. With touch, it restarts the idle limit; requests of a page
// that refreshes itself do not touch. The error is ErrNone, or the database's.
func (s *Store) Find(ctx context.Context, token string, touch bool) (*Session, error) {
	now := s.now()
	found := &Session{hash: hashOf(token), store: s}
	err := s.cfg.Pool.QueryRow(ctx, `
		SELECT s.workspace_id, w.name, s.person, s.issuer, s.subject, s.role, s.grants, s.seen_at, s.expires_at
		  FROM console_session s JOIN workspace w ON w.workspace_id = s.workspace_id
		 WHERE s.hash = $1 AND s.expires_at > $2 AND s.seen_at > $3 AND NOT ($4 AND coalesce(w.move, '') IN ('moved', 'receiving'))`,
		found.hash, now, now.Add(-idleLimit), s.cfg.Cell != "").
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

// SignOut ends a session, with a line in the audit trail. It accepts a session that has already
// ended.
func (s *Store) SignOut(ctx context.Context, ended *Session) error {
	return pgx.BeginFunc(ctx, ended.store.cfg.Pool, func(tx pgx.Tx) error {
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

// SignedIn returns when the person of a session signed in.
func (*Store) SignedIn(of *Session) time.Time { return of.ExpiresAt.Add(-absoluteLimit) }

// tokenBytes is the number of random bytes in a token.
const tokenBytes = 32

// Config configures a Store.
type Config struct {
	Pool   pg.DB            // required
	Clock  func() time.Time // nil: time.Now
	Random io.Reader        // source of tokens; nil: crypto/rand.Reader

	// Cell names the database among several, each with some of the workspaces and their sessions;
	// empty: there is one. Tokens begin with it, so that a request finds its database.
	Cell string
	// Others returns the stores of the other databases that answer; nil: there are none.
	Others func() []*Store
}

const (
	// idleLimit is how long a session lasts without a request.
	idleLimit = 2 * time.Hour
	// absoluteLimit is how long a session lasts at most.
	absoluteLimit = 12 * time.Hour
)

// NewStore creates a Store. The error says what is wrong with cfg.
func NewStore(cfg Config) (*Store, error) {
	if cfg.Pool == nil {
		return nil, errors.New("session: Config needs a Pool")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Random = cmp.Or(cfg.Random, rand.Reader)
	return &Store{cfg: cfg}, nil
}

// now returns the current time, in the precision of the database.
func (s *Store) now() time.Time { return s.cfg.Clock().UTC().Truncate(time.Microsecond) }

// Token makes a random token.
func (s *Store) Token() (string, error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(s.cfg.Random, b[:]); err != nil {
		return "", fmt.Errorf("cannot make a token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// token makes the token of a session or a link.
func (s *Store) token() (string, error) {
	token, err := s.Token()
	if err == nil && s.cfg.Cell != "" {
		token = s.cfg.Cell + "." + token
	}
	return token, err
}

// CellOf returns the part of a token before its first dot, which the caller must check: the
// Config.Cell of the store that made it.
func CellOf(token string) string {
	name, _, found := strings.Cut(token, ".")
	if !found {
		return ""
	}
	return name
}

// others returns the stores of the other databases.
func (s *Store) others() []*Store {
	if s.cfg.Others == nil {
		return nil
	}
	return s.cfg.Others()
}

// holderOf returns the store of the database that has a workspace; this one, if none is found.
func (s *Store) holderOf(ctx context.Context, workspaceID string) (*Store, error) {
	others := s.others()
	if len(others) == 0 {
		return s, nil
	}
	var failed error
	for _, one := range append([]*Store{s}, others...) {
		here, err := one.has(ctx, workspaceID)
		if here {
			return one, nil
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return nil, fmt.Errorf("cannot look for a workspace: %w", failed)
	}
	return s, nil
}

// otherTimeout bounds the wait for one of several databases.
const otherTimeout = 2 * time.Second

// has reports whether the database serves a workspace. A workspace that has moved away, or has not
// fully arrived, does not count.
func (s *Store) has(ctx context.Context, workspaceID string) (here bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, otherTimeout)
	defer cancel()
	err = s.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace WHERE workspace_id = $1 AND coalesce(move, '') NOT IN ('moved', 'receiving'))`, workspaceID).Scan(&here)
	return here, err
}

// hashOf returns the hash of a token, which the database stores in its place.
func hashOf(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

func isForeignKey(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23503"
}

// Workspaces returns the names, by id, of those workspaces that exist; nil ids: of all workspaces.
// With several databases, it leaves out the workspaces of any database that does not answer.
func (s *Store) Workspaces(ctx context.Context, ids []string) (map[string]string, error) {
	others := s.others()
	if len(others) == 0 || ids != nil && len(ids) == 0 {
		return s.workspaces(ctx, ids)
	}
	names := map[string]string{}
	for _, other := range append([]*Store{s}, others...) {
		limited, cancel := context.WithTimeout(ctx, otherTimeout)
		if more, err := other.workspaces(limited, ids); err == nil {
			maps.Copy(names, more)
		}
		cancel()
	}
	return names, nil
}

func (s *Store) workspaces(ctx context.Context, ids []string) (map[string]string, error) {
	names := map[string]string{}
	var id, name string
	const named = `SELECT workspace_id, name FROM workspace WHERE $1::text[] IS NULL OR workspace_id = ANY ($1)`
	err := pg.ForEach(ctx, s.cfg.Pool, named, []any{ids}, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read workspaces: %w", err)
	}
	return names, nil
}

// removedAtOnce is how many expired rows one call removes; later calls remove the rest.
const removedAtOnce = 500

// removeExpired removes expired rows of any workspace, except locked ones. It looks them up first
// and removes them one by one, because a cluster can lock rows of only one workspace per statement.
func removeExpired(ctx context.Context, s *Store, table string, now time.Time) error {
	type name struct {
		WorkspaceID string
		Hash        []byte
	}
	expired, err := pg.Collect(ctx, s.cfg.Pool, pgx.RowToStructByPos[name], `
		SELECT workspace_id, hash FROM `+table+` WHERE expires_at <= $1 LIMIT $2`, now, removedAtOnce)
	if err != nil {
		return fmt.Errorf("look for what has expired: %w", err)
	}
	if len(expired) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, e := range expired {
		b.Queue(`
			DELETE FROM `+table+` WHERE workspace_id = $1 AND hash IN (
			       SELECT hash FROM `+table+` WHERE workspace_id = $1 AND hash = $2 AND expires_at <= $3 FOR UPDATE SKIP LOCKED)`,
			e.WorkspaceID, e.Hash, now)
	}
	if err := s.cfg.Pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("remove what has expired: %w", err)
	}
	return nil
}

// Role is what a person may do in a workspace.
type Role string

// The roles.
const (
	Viewer Role = "viewer" // may look
	Admin  Role = "admin"  // may also change
)

// ParseRole reads a role by its name.
func ParseRole(name string) (Role, bool) {
	switch r := Role(name); r {
	case Viewer, Admin:
		return r, true
	}
	return "", false
}

// Grant is a role in a workspace. Sessions are stored with their grants as JSON.
type Grant struct {
	Workspace string `json:"workspace"`
	Role      Role   `json:"role"`
}

// LinkLifetime is how long an unused sign-in link works.
const LinkLifetime = 10 * time.Minute

// Link is a sign-in link.
type Link struct {
	WorkspaceID   string
	ID            string // for the audit trail; set only on links that were found
	WorkspaceName string // set only on links that were found
	Role          Role   // empty in CreateLink: Admin
	Person        string // the name of the person it signs in; empty in CreateLink: "Guest"
	Embed         bool   // works only in a product's frame
}

// Paths of links, which end with the token.
const (
	SignInPath = "/sign-in/"
	EmbedPath  = "/embed/"
)

// hashOf returns a hash of the token and the kind of link, so that neither kind works as the other.
func (l *Link) hashOf(token string) []byte {
	if l.Embed {
		return hashOf(EmbedPath + token)
	}
	return hashOf(token)
}

// CreateLink creates a sign-in link that works once, within LinkLifetime, and returns its path, to
// append to the console's address. Errors: *domain.UnknownWorkspaceError.
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
	token, err := s.token()
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

// linkID returns the id of a link for the audit trail. The id does not open anything.
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

// readLink runs sql and fills in l, whose Embed is already set.
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
