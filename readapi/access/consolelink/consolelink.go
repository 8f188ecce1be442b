// Package consolelink lets a product's server show its customers the console: in a frame
// of the product's own page, or in a tab. It is the command console link for programs in
// Go that reach Ledgerfeed's database.
package consolelink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// Config of a Maker.
type Config struct {
	Pool *pgxpool.Pool // required; of Ledgerfeed's database, as the role of the service
	URL  string        // LEDGERFEED_CONSOLE_URL, such as https://console.example.com; required

	Clock func() time.Time // nil: time.Now
}

// Maker makes links. It is safe for concurrent use.
type Maker struct {
	sessions *session.Store
	base     string
}

// New makes a Maker. The error names what is wrong with cfg.
func New(cfg Config) (*Maker, error) {
	if cfg.Pool == nil {
		return nil, errors.New("consolelink: Config needs a Pool")
	}
	at, err := web.ParseOrigin(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("consolelink: the console's address is %q: %w", cfg.URL, err)
	}
	sessions, err := session.NewStore(session.Config{Pool: cfg.Pool, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	return &Maker{sessions, at.URL}, nil
}

// Role is what may be done in the console.
type Role = session.Role

// The roles.
const (
	Viewer = session.Viewer // look
	Admin  = session.Admin  // look and change
)

// Person is whom a link lets in.
type Person struct {
	WorkspaceID string
	Name        string // as the audit trail shows it; empty: Guest
	Role        Role   // required
}

// Link is a link that works once.
type Link struct {
	URL       string
	ExpiresAt time.Time // if it is not used before
}

// Embed makes a link for the src of a frame in the product's page. It opens that frame and
// nothing else, for as long as a session lasts; LEDGERFEED_CONSOLE_EMBED_ORIGINS has to
// name the product. The frame begins at the first page, or where "?to=/webhooks" or
// another path behind the link says. Errors: *domain.UnknownWorkspaceError; one that names
// what p lacks.
func (m *Maker) Embed(ctx context.Context, p Person) (Link, error) { return m.link(ctx, p, true) }

// SignIn makes a link for a tab: the person who opens it is asked to sign in as the person.
// Errors are those of Embed.
func (m *Maker) SignIn(ctx context.Context, p Person) (Link, error) { return m.link(ctx, p, false) }

func (m *Maker) link(ctx context.Context, p Person, embed bool) (Link, error) {
	if _, ok := session.ParseRole(string(p.Role)); !ok {
		return Link{}, fmt.Errorf("consolelink: the role is %q: want Viewer or Admin", p.Role)
	}
	path, expires, err := m.sessions.CreateLink(ctx, session.Link{WorkspaceID: p.WorkspaceID, Person: p.Name, Role: p.Role, Embed: embed})
	if err != nil {
		return Link{}, err
	}
	return Link{m.base + path, expires}, nil
}
