package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Role is what a person may do in a workspace.
type Role string

// The roles.
const (
	Viewer Role = "viewer" // looks
	Admin  Role = "admin"  // changes, too
)

// ParseRole reads a role by its name.
func ParseRole(name string) (Role, bool) {
	switch r := Role(name); r {
	case Viewer, Admin:
		return r, true
	}
	return "", false
}

// Grant is a role in a workspace.
type Grant struct {
	Workspace string `json:"workspace"`
	Role      Role   `json:"role"`
}

// LinkLifetime is how long a sign-in link works if nobody uses it.
const LinkLifetime = 10 * time.Minute

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// DoorConfig is what a Door needs.
type DoorConfig struct {
	Pool   *pgxpool.Pool    // required
	Clock  func() time.Time // nil: time.Now
	Random io.Reader        // source of tokens; nil: crypto/rand.Reader

	// Idle is after how long without a request a session ends. Default 2 h.
	Idle time.Duration
	// Absolute is after how long a session ends in any case. Default 12 h.
	Absolute time.Duration
}

// Door decides who gets in: it makes and takes sign-in links, and keeps the
// sessions. Any number of processes may share a database.
type Door struct {
	cfg DoorConfig
}

// NewDoor makes a Door. The error says what cfg lacks.
func NewDoor(cfg DoorConfig) (*Door, error) {
	if cfg.Pool == nil {
		return nil, errors.New("console: DoorConfig needs a Pool")
	}
	if cfg.Idle < 0 || cfg.Absolute < 0 {
		return nil, errors.New("console: DoorConfig.Idle and Absolute are not below 0")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Idle == 0 {
		cfg.Idle = 2 * time.Hour
	}
	if cfg.Absolute == 0 {
		cfg.Absolute = 12 * time.Hour
	}
	return &Door{cfg: cfg}, nil
}

// now is the one time of a transaction, as precise as the database keeps it.
func (d *Door) now() time.Time { return d.cfg.Clock().UTC().Truncate(time.Microsecond) }

// token draws a token; its hash is what the database gets.
func (d *Door) token() (text string, hash []byte, err error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(d.cfg.Random, b[:]); err != nil {
		return "", nil, fmt.Errorf("draw a token: %w", err)
	}
	text = base64.RawURLEncoding.EncodeToString(b[:])
	return text, hashOf(text), nil
}

func hashOf(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// NewLink is what a sign-in link is made from.
type NewLink struct {
	WorkspaceID string
	Role        Role   // empty: Admin
	Person      string // the name that who uses it gets; empty: "Guest"
}

// Link makes a sign-in link that works once, within LinkLifetime, and returns
// its path, to be put behind the console's address. Errors:
// *domain.UnknownWorkspaceError.
func (d *Door) Link(ctx context.Context, n NewLink) (path string, expires time.Time, err error) {
	if n.Role == "" {
		n.Role = Admin
	}
	if n.Person = strings.TrimSpace(n.Person); n.Person == "" {
		n.Person = "Guest"
	}
	if _, ok := ParseRole(string(n.Role)); !ok {
		return "", expires, fmt.Errorf("make a sign-in link: there is no role %q", n.Role)
	}
	token, hash, err := d.token()
	if err != nil {
		return "", expires, err
	}
	now := d.now()
	expires = now.Add(LinkLifetime)
	if _, err := d.cfg.Pool.Exec(ctx, `DELETE FROM console_link WHERE expires_at <= $1`, now); err != nil {
		return "", expires, fmt.Errorf("remove old sign-in links: %w", err)
	}
	_, err = d.cfg.Pool.Exec(ctx, `
		INSERT INTO console_link (workspace_id, hash, person, role, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		n.WorkspaceID, hash, n.Person, string(n.Role), now, expires)
	if isForeignKey(err) {
		return "", expires, &domain.UnknownWorkspaceError{WorkspaceID: n.WorkspaceID}
	}
	if err != nil {
		return "", expires, fmt.Errorf("keep a sign-in link: %w", err)
	}
	return "/sign-in/" + token, expires, nil
}

func isForeignKey(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23503"
}

// link is a sign-in link that was not used yet.
type link struct {
	WorkspaceID   string
	WorkspaceName string
	Person        string
	Role          Role
}

// errLink means that a link does not work: it was used, its time is over, or
// it never was one. Which of these is nobody's business.
var errLink = errors.New("this sign-in link does not work any more")

// lookAt tells whose link it is without using it up: programs that preview
// links open them, too. The error is errLink, or the database's.
func (d *Door) lookAt(ctx context.Context, token string) (*link, error) {
	return d.readLink(ctx, `
		SELECT l.workspace_id, w.name, l.person, l.role FROM console_link l
		  JOIN workspace w ON w.workspace_id = l.workspace_id
		 WHERE l.hash = $1 AND l.expires_at > $2`, token)
}

// use uses a link up. The error is errLink, or the database's.
func (d *Door) use(ctx context.Context, token string) (*link, error) {
	return d.readLink(ctx, `
		DELETE FROM console_link l USING workspace w
		 WHERE l.hash = $1 AND l.expires_at > $2 AND w.workspace_id = l.workspace_id
		RETURNING l.workspace_id, w.name, l.person, l.role`, token)
}

func (d *Door) readLink(ctx context.Context, sql, token string) (*link, error) {
	l := &link{}
	err := d.cfg.Pool.QueryRow(ctx, sql, hashOf(token), d.now()).Scan(&l.WorkspaceID, &l.WorkspaceName, &l.Person, &l.Role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errLink
	}
	if err != nil {
		return nil, fmt.Errorf("look for a sign-in link: %w", err)
	}
	return l, nil
}
