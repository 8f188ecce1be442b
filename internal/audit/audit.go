// Package audit keeps the trail of who changed what: workspaces, keys, webhooks,
// skipped entries, rebuilds, settings of the service, sign-ins. A package that
// changes one of them adds the line itself, in the transaction of the change, so
// that neither exists without the other. The console shows a workspace's lines. The
// table accepts no updates and no deletes.
package audit

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// AllWorkspaces is the workspace of changes that concern the whole service.
const AllWorkspaces = "*"

// Change is one line of the trail.
type Change struct {
	WorkspaceID string
	At          time.Time // set by Add
	Actor       Actor     // who made it; set by Add
	Action      Action
	ObjectID    string // of the key, webhook, delivery or entry; empty where the action has none
	ObjectName  string // the object's name or address at that time
	Detail      string // the new values, in words; never a secret
}

// Add appends a change that is made in tx by the actor of ctx.
func Add(ctx context.Context, tx pgx.Tx, at time.Time, c Change) error {
	a := actorOf(ctx)
	_, err := tx.Exec(ctx, `
		INSERT INTO console_audit (workspace_id, at, audit_id, person, issuer, subject, via, action, object_id, object_name, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		c.WorkspaceID, at.UTC(), uuid.New(), a.Name, a.Issuer, a.Subject, string(a.Via), string(c.Action), c.ObjectID, c.ObjectName, c.Detail)
	if err != nil {
		return fmt.Errorf("cannot add %s to the audit trail: %w", c.Action, err)
	}
	return nil
}

// Trail reads the trail. It is safe for concurrent use.
type Trail struct {
	pool pg.DB
}

// NewTrail makes a Trail.
func NewTrail(pool pg.DB) *Trail { return &Trail{pool: pool} }

// Position is the place of a change in the trail. The console puts it into
// links as JSON.
type Position struct {
	At time.Time `json:"a"`
	ID uuid.UUID `json:"i"`
}

// Newest returns the position after every change, where the first page begins.
func Newest() Position { return Position{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} }

// Filter chooses changes; its zero value chooses all.
type Filter struct {
	Who    string    // a part of the name, in any case, or a subject; empty: everyone
	Action Action    // empty: all
	Since  time.Time // zero: from the first
	Until  time.Time // before this moment; zero: to the last
}

// Page returns up to limit changes of a workspace older than a position, newest
// first, and the position of the last of them; nil when there are no older ones.
func (t *Trail) Page(ctx context.Context, workspaceID string, f Filter, olderThan Position, limit int) (list []Change, next *Position, err error) {
	if !f.Until.IsZero() && f.Until.Before(olderThan.At) {
		olderThan = Position{At: f.Until}
	}
	var positions []Position
	list, err = pg.Collect(ctx, t.pool, func(row pgx.CollectableRow) (Change, error) {
		c, p := Change{WorkspaceID: workspaceID}, Position{}
		a := &c.Actor
		err := row.Scan(&p.At, &p.ID, &a.Name, &a.Issuer, &a.Subject, &a.Via, &c.Action, &c.ObjectID, &c.ObjectName, &c.Detail)
		c.At = p.At.UTC()
		positions = append(positions, p)
		return c, err
	}, `
		SELECT at, audit_id, person, issuer, subject, via, action, object_id, object_name, detail FROM console_audit
		 WHERE workspace_id = $1 AND (at, audit_id) < ($2, $3) AND at >= $5
		   AND ($6 = '' OR strpos(lower(person), lower($6)) > 0 OR subject = $6)
		   AND ($7 = '' OR action = $7)
		 ORDER BY at DESC, audit_id DESC LIMIT $4`, workspaceID, olderThan.At, olderThan.ID, limit+1, f.Since, f.Who, string(f.Action))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the audit trail: %w", err)
	}
	if len(list) > limit {
		return list[:limit], &positions[limit-1], nil
	}
	return list, nil, nil
}

// Via is where a change was made.
type Via string

// Where changes are made.
const (
	ViaConsole Via = "console"
	ViaCommand Via = "command"
	ViaService Via = "service" // by a serving process itself
)

// Actor is who makes a change.
type Actor struct {
	Via  Via
	Name string // for people; many identity providers let people choose it themselves

	// Issuer and Subject identify a person independently of the name: the identity provider's
	// address, and its permanent id of the person. For a sign-in link, Issuer is empty and Subject
	// is the link's id, as in the line about its creation. Commands and the service have neither.
	Issuer, Subject string
}

type actorKey struct{}

// As returns a context that attributes changes to the actor. Without an actor in the context,
// changes are attributed to the account that runs the program, as for commands.
func As(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// AsService returns a context that attributes changes to the serving process itself.
func AsService(ctx context.Context) context.Context {
	return As(ctx, Actor{Via: ViaService, Name: account()})
}

func actorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Via: ViaCommand, Name: account()}
}

// account returns the account that runs the program, as account@machine.
func account() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
