// Package consolelink lets a product's server show its customers the console, in a frame of the
// product's own page or in a tab. It does what the command "ledgerfeed console link" does, for Go
// programs that can reach Ledgerfeed's database.
package consolelink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Config configures a Maker.
type Config struct {
	Pool pg.DB  // required; to Ledgerfeed's database, as the service's role
	URL  string // LEDGERFEED_CONSOLE_URL, such as https://console.example.com; required
	Cell string // name of the database in LEDGERFEED_CELLS; empty: there is one

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
	sessions, err := session.NewStore(session.Config{Pool: cfg.Pool, Clock: cfg.Clock, Cell: cfg.Cell})
	if err != nil {
		return nil, err
	}
	return &Maker{sessions, at.URL}, nil
}

// Role is what a person may do in the console.
type Role = session.Role

// The roles.
const (
	Viewer = session.Viewer // look
	Admin  = session.Admin  // look and change
)

// Person is the person whom a link signs in.
type Person struct {
	WorkspaceID string
	Name        string // as the audit trail shows it; empty: Guest
	Role        Role   // required
}

// Link is a link that works once.
type Link struct {
	URL       string
	ExpiresAt time.Time // when it expires if it was not used
}

// Embed makes a link for the src of a frame in the product's page. The link opens only that frame,
// for as long as a session lasts. LEDGERFEED_CONSOLE_EMBED_ORIGINS must name the product. The frame
// starts on the first page; to start elsewhere, append "?to=/webhooks" or another path to the link.
// Errors: *domain.UnknownWorkspaceError, or an error that names what p lacks.
func (m *Maker) Embed(ctx context.Context, p Person) (Link, error) { return m.link(ctx, p, true) }

// SignIn makes a link for a tab. Whoever opens it is asked to sign in as p. Errors: as for Embed.
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
