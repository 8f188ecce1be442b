package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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

// The places.
const (
	ViaConsole Via = "console"
	ViaCommand Via = "command"
)

// Action is a kind of change.
type Action string

// The actions that are kept.
const (
	KeyCreate           Action = "key.create"
	KeyRotate           Action = "key.rotate"
	KeyRevoke           Action = "key.revoke"
	KeySetLimit         Action = "key.set_limit"
	WebhookCreate       Action = "webhook.create"
	WebhookEdit         Action = "webhook.edit"
	WebhookDelete       Action = "webhook.delete"
	WebhookRotateSecret Action = "webhook.rotate_secret" //nolint:gosec // the name of an action
	WebhookTest         Action = "webhook.test"
	WebhookTurnOn       Action = "webhook.turn_on"
	WebhookSendMissed   Action = "webhook.send_missed"
	DeliveryResend      Action = "delivery.resend"
	EntrySkip           Action = "entry.skip"
	EntryRestore        Action = "entry.restore"
	LinkCreate          Action = "link.create"
	SignIn              Action = "session.sign_in"
	SignOut             Action = "session.sign_out"
)

// Words says what was done, as the audit page does.
func (a Action) Words() string {
	switch a {
	case KeyCreate:
		return "Created API key"
	case KeyRotate:
		return "Rotated API key"
	case KeyRevoke:
		return "Revoked API key"
	case KeySetLimit:
		return "Changed the limit of API key"
	case WebhookCreate:
		return "Added webhook"
	case WebhookEdit:
		return "Edited webhook"
	case WebhookDelete:
		return "Deleted webhook"
	case WebhookRotateSecret:
		return "Rotated the secret of webhook"
	case WebhookTest:
		return "Sent a test to webhook"
	case WebhookTurnOn:
		return "Turned on webhook"
	case WebhookSendMissed:
		return "Sent missed events to webhook"
	case DeliveryResend:
		return "Sent again"
	case EntrySkip:
		return "Passed over entry"
	case EntryRestore:
		return "Gave its effect to entry"
	case LinkCreate:
		return "Made a sign-in link"
	case SignIn:
		return "Signed in"
	case SignOut:
		return "Signed out"
	}
	return string(a) // of a newer program
}

// Change is one line of the audit.
type Change struct {
	WorkspaceID string
	At          time.Time // set by Record
	Person      string    // who
	Via         Via
	Action      Action
	ObjectID    string // of the key, webhook or delivery; empty for sign-ins
	ObjectName  string // its name or address at that time
	Detail      string // what it was changed to, in words; never a secret
}

// Audit is the append-only record of changes. It is safe for concurrent use.
type Audit struct {
	pool  *pgxpool.Pool
	clock func() time.Time
}

// NewAudit makes an Audit; both arguments are required.
func NewAudit(pool *pgxpool.Pool, clock func() time.Time) *Audit {
	return &Audit{pool: pool, clock: clock}
}

// CommandPerson is who runs a command, as the system tells: account@machine.
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

// auditPatience bounds the writing of a line.
const auditPatience = 5 * time.Second

// Record appends a change that has been made. It does not end with ctx: a
// person who closes the page has still made the change.
func (a *Audit) Record(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	_, err := a.pool.Exec(ctx, `
		INSERT INTO console_audit (workspace_id, at, audit_id, person, via, action, object_id, object_name, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.WorkspaceID, a.clock().UTC(), uuid.New(), c.Person, string(c.Via), string(c.Action), c.ObjectID, c.ObjectName, c.Detail)
	if err != nil {
		return fmt.Errorf("keep the audit of %s: %w", c.Action, err)
	}
	return nil
}

// errCursor means that a page's cursor is not one of its list.
var errCursor = errors.New("the cursor is not one of this list")

// auditPlace is where a page of the audit ended.
type auditPlace struct {
	At time.Time `json:"a"`
	ID uuid.UUID `json:"i"`
}

// changes gives a page of a workspace's audit, the newest first, and the
// cursor of the next page, empty on the last. The error is errCursor, or the
// database's.
func (a *Audit) changes(ctx context.Context, workspaceID, cursor string, limit int) (list []Change, next string, err error) {
	after := &auditPlace{At: endOfTime()}
	if cursor != "" {
		if after, err = parseCursor[auditPlace](cursor); err != nil {
			return nil, "", err
		}
	}
	rows, err := a.pool.Query(ctx, `
		SELECT at, audit_id, person, via, action, object_id, object_name, detail FROM console_audit
		 WHERE workspace_id = $1 AND (at, audit_id) < ($2, $3)
		 ORDER BY at DESC, audit_id DESC LIMIT $4`, workspaceID, after.At, after.ID, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("read the audit: %w", err)
	}
	var places []auditPlace
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Change, error) {
		c, p := Change{WorkspaceID: workspaceID}, auditPlace{}
		err := row.Scan(&p.At, &p.ID, &c.Person, &c.Via, &c.Action, &c.ObjectID, &c.ObjectName, &c.Detail)
		c.At = p.At.UTC()
		places = append(places, p)
		return c, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("read the audit: %w", err)
	}
	if len(list) > limit {
		list, next = list[:limit], formatCursor(places[limit-1])
	}
	return list, next, nil
}

// endOfTime is after everything that happens.
func endOfTime() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// formatCursor writes a place into a link.
func formatCursor(place any) string {
	b, err := json.Marshal(place)
	if err != nil {
		return "" // not reached: places are plain structs
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads what formatCursor wrote. The error is errCursor.
func parseCursor[P any](cursor string) (*P, error) {
	p := new(P)
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, p) != nil {
		return nil, errCursor
	}
	return p, nil
}
