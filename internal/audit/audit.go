// Package audit keeps the trail of who changed what in a workspace: keys,
// webhooks, skipped entries, sign-ins. The console and the commands add to it;
// the console shows it. Its table accepts no updates and no deletes.
package audit

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Via is where a change was made.
type Via string

// Where changes are made.
const (
	ViaConsole Via = "console"
	ViaCommand Via = "command"
)

// Change is one line of the trail.
type Change struct {
	WorkspaceID string
	At          time.Time // set by Add
	Person      string    // who made it
	Via         Via
	Action      Action
	ObjectID    string // of the key, webhook or delivery; empty for sign-ins
	ObjectName  string // the object's name or address at that time
	Detail      string // the new values, in words; never a secret
}

// Trail is the append-only list of changes. It is safe for concurrent use.
type Trail struct {
	pool  *pgxpool.Pool
	clock func() time.Time
}

// NewTrail makes a Trail; both arguments are required.
func NewTrail(pool *pgxpool.Pool, clock func() time.Time) *Trail {
	return &Trail{pool: pool, clock: clock}
}

// CommandPerson names the person who runs a command as account@machine.
func CommandPerson() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// addTimeout bounds the insert of a line.
const addTimeout = 5 * time.Second

// Add appends a change that has been made. Cancelling ctx does not stop it: a
// person who closes the page has still made the change.
func (t *Trail) Add(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), addTimeout)
	defer cancel()
	_, err := t.pool.Exec(ctx, `
		INSERT INTO console_audit (workspace_id, at, audit_id, person, via, action, object_id, object_name, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.WorkspaceID, t.clock().UTC(), uuid.New(), c.Person, string(c.Via), string(c.Action), c.ObjectID, c.ObjectName, c.Detail)
	if err != nil {
		return fmt.Errorf("cannot add %s to the audit trail: %w", c.Action, err)
	}
	return nil
}

// Position is the place of a change in the trail. The console puts it into
// links as JSON.
type Position struct {
	At time.Time `json:"a"`
	ID uuid.UUID `json:"i"`
}

// Newest is the position before the first page: after every change.
func Newest() Position { return Position{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} }

// Page returns up to limit changes of a workspace older than a position, newest
// first, and the position of the last of them; nil when there are no older ones.
func (t *Trail) Page(ctx context.Context, workspaceID string, olderThan Position, limit int) (list []Change, next *Position, err error) {
	rows, err := t.pool.Query(ctx, `
		SELECT at, audit_id, person, via, action, object_id, object_name, detail FROM console_audit
		 WHERE workspace_id = $1 AND (at, audit_id) < ($2, $3)
		 ORDER BY at DESC, audit_id DESC LIMIT $4`, workspaceID, olderThan.At, olderThan.ID, limit+1)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the audit trail: %w", err)
	}
	var positions []Position
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Change, error) {
		c, p := Change{WorkspaceID: workspaceID}, Position{}
		err := row.Scan(&p.At, &p.ID, &c.Person, &c.Via, &c.Action, &c.ObjectID, &c.ObjectName, &c.Detail)
		c.At = p.At.UTC()
		positions = append(positions, p)
		return c, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the audit trail: %w", err)
	}
	if len(list) > limit {
		return list[:limit], &positions[limit-1], nil
	}
	return list, nil, nil
}
