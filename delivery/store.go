package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// StoreConfig configures a Store.
type StoreConfig struct {
	Pool     pg.DB            // required
	Feed     *eventlog.Feed   // searches events; nil: in Pool
	Keyring  *keyring.Keyring // nil: the Store cannot make secrets
	Log      *eventlog.Log    // required; "Send test" appends to it
	Notify   eventlog.NotifyFunc
	Clock    func() time.Time // nil: time.Now
	Random   io.Reader        // source of secrets; nil: crypto/rand.Reader
	Settings policy.Settings

	// LockTimeout is how long a change waits for rows that another transaction has locked. While it
	// waits, it keeps a connection and a user waits for a page. Default 5 s.
	LockTimeout time.Duration
}

// Store creates and changes webhooks, and shows their deliveries. Any number of goroutines and
// processes may call its methods. A change is committed when its method returns without an error;
// the same transaction adds a line to the audit trail. Errors that a method's comment does not name
// come from the database.
//
// A method that takes only a webhook's id finds the webhook in any workspace. The caller must check
// with Get whether the user may see it.
type Store struct {
	cfg StoreConfig
}

// NewStore returns a Store. The error says what is wrong with cfg.
func NewStore(cfg StoreConfig) (*Store, error) {
	if cfg.Pool == nil || cfg.Log == nil {
		return nil, errors.New("delivery: StoreConfig needs a Pool and a Log")
	}
	var err error
	if cfg.Settings, err = cfg.Settings.WithDefaults(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Feed == nil {
		cfg.Feed = eventlog.NewFeed(cfg.Pool)
	}
	cfg.LockTimeout = cmp.Or(cfg.LockTimeout, defaultLockTimeout)
	return &Store{cfg: cfg}, nil
}

// now returns the current time in microseconds, the precision of the database.
func (s *Store) now() time.Time { return s.cfg.Clock().UTC().Truncate(time.Microsecond) }

// changed tells dispatchers that a workspace's webhooks were changed.
func (s *Store) changed(workspaceID string) {
	if s.cfg.Notify != nil {
		s.cfg.Notify(eventlog.TopicProjected, workspaceID)
	}
}

const defaultLockTimeout = 5 * time.Second

// inTx runs do in a transaction, and again if the database rolled it back because of a conflict
// with other transactions. Errors: ErrLocked, do's.
func (s *Store) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	err := pg.Again(ctx, func() error { return pg.InLimitedTx(ctx, s.cfg.Pool, s.cfg.LockTimeout, do) })
	if pg.Locked(err) {
		return fmt.Errorf("%w (after %v: %w)", ErrLocked, s.cfg.LockTimeout, err)
	}
	return err
}

// seal encrypts a secret for its row under the database's key, in the transaction that stores it.
func (s *Store) seal(ctx context.Context, tx pgx.Tx, workspaceID, webhookID, secret string) ([]byte, error) {
	if s.cfg.Keyring == nil {
		return nil, errors.New("delivery: a Store without a Keyring makes no secrets")
	}
	k, err := keyring.Sealing(ctx, tx, s.cfg.Keyring, s.now())
	if err != nil {
		return nil, err
	}
	return k.Seal(workspaceID, webhookID, secret), nil
}

// named is a webhook with the address and the name that the audit trail shows for it.
type named struct{ workspaceID, id, url, name string }

func (s *Store) addToAudit(ctx context.Context, tx pgx.Tx, action audit.Action, w *named, detail string) error {
	return audit.Add(ctx, tx, s.now(), audit.Change{WorkspaceID: w.workspaceID, Action: action, ObjectID: w.id, ObjectName: attempt.Label(w.name, w.url), Detail: detail})
}

// eventsDetail returns the audit trail's text about a webhook's event types; nil means all.
func eventsDetail(types []string) string {
	if types == nil {
		return "events: " + AllEvents
	}
	return "events: " + strings.Join(types, ", ")
}

// workspaceOf returns a webhook's workspace, which never changes. Statements that lock or write
// need it. Errors: *UnknownWebhookError.
func workspaceOf(ctx context.Context, tx pgx.Tx, webhookID string) (workspaceID string, err error) {
	err = tx.QueryRow(ctx, `SELECT workspace_id FROM webhook WHERE webhook_id = $1`, webhookID).Scan(&workspaceID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", &UnknownWebhookError{webhookID}
	}
	if err != nil {
		return "", fmt.Errorf("look for webhook %s: %w", webhookID, err)
	}
	return workspaceID, nil
}

// change locks a webhook's row, runs do in the same transaction, and then tells dispatchers to read
// the webhook again. Errors: *UnknownWebhookError, ErrLocked, do's.
func (s *Store) change(ctx context.Context, webhookID string, do func(pgx.Tx, *named) error) error {
	w := &named{id: webhookID}
	for turn := 1; ; turn++ {
		taken, wait := false, " NOWAIT"
		if turn == lockTurns {
			wait = ""
		}
		err := s.inTx(ctx, func(tx pgx.Tx) error {
			var err error
			if w.workspaceID, err = workspaceOf(ctx, tx, webhookID); err != nil {
				return err
			}
			if err := mayChange(ctx, tx, w.workspaceID); err != nil {
				return err
			}
			err = w.lock(ctx, tx, wait)
			if taken = pg.Locked(err); err != nil {
				return err
			}
			return do(tx, w)
		})
		if err == nil {
			s.changed(w.workspaceID)
			return nil
		}
		if !taken || turn == lockTurns {
			return err
		}
		if err := s.inTx(ctx, func(tx pgx.Tx) error { return w.lock(ctx, tx, "") }); err != nil {
			return err
		}
	}
}

// lockTurns is how many times a change tries to lock its webhook. Only the last try waits in line,
// in case many callers change the webhook at once.
const lockTurns = 10

// lock locks the webhook's row, and reads the address and the name for the audit trail. wait is
// empty, or NOWAIT to fail at once if another transaction has locked the row. A transaction that
// has called mayChange holds a lock on the workspace. It waits for a webhook's row only in the last
// turn, because other changes of the workspace may wait for it. Errors: *UnknownWebhookError.
func (w *named) lock(ctx context.Context, tx pgx.Tx, wait string) error {
	err := tx.QueryRow(ctx, `SELECT url, name FROM webhook WHERE workspace_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE`+wait, w.workspaceID, w.id).Scan(&w.url, &w.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return &UnknownWebhookError{w.id}
	}
	if err != nil {
		return fmt.Errorf("lock webhook %s: %w", w.id, err)
	}
	return nil
}

// Delete removes a webhook. Messages in flight may still arrive. Errors: *UnknownWebhookError.
func (s *Store) Delete(ctx context.Context, webhookID string) error {
	return s.change(ctx, webhookID, func(tx pgx.Tx, w *named) error {
		if _, err := tx.Exec(ctx, `DELETE FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.workspaceID, w.id); err != nil {
			return fmt.Errorf("delete webhook %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookDelete, w, "")
	})
}

// Test appends a test.ping to the log and returns the event's id. Only this webhook gets it,
// whatever event types it chose. Errors: *UnknownWebhookError, ErrOff, ErrPaused.
func (s *Store) Test(ctx context.Context, webhookID string) (eventID string, err error) {
	w, err := s.Get(ctx, webhookID)
	if err != nil {
		return "", err
	}
	if !w.On() {
		return "", ErrOff
	}
	if w.Paused() {
		return "", ErrPaused
	}
	data, err := json.Marshal(map[string]string{"webhook_id": webhookID})
	if err != nil {
		return "", fmt.Errorf("write a test.ping: %w", err)
	}
	draft, err := domain.NewDraft(w.WorkspaceID, domain.TypeTestPing, data)
	if err != nil {
		return "", fmt.Errorf("write a test.ping: %w", err)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		// Append first: it may wait for a producer's transaction, and other changes may wait for a
		// transaction that has called mayChange.
		receipts, err := s.cfg.Log.AppendTx(ctx, tx, draft)
		if err != nil {
			return fmt.Errorf("append a test.ping: %w", err)
		}
		if err := mayChange(ctx, tx, w.WorkspaceID); err != nil {
			return err
		}
		eventID = receipts[0].ID
		return s.addToAudit(ctx, tx, audit.WebhookTest, &named{w.WorkspaceID, w.ID, w.URL, w.Name}, "event "+eventID)
	})
	if err != nil {
		return "", err
	}
	if s.cfg.Notify != nil {
		s.cfg.Notify(eventlog.TopicAppended, w.WorkspaceID)
	}
	return eventID, nil
}

// TurnOn turns a webhook back on and clears its failure count. The webhook gets the events appended
// from now on; SendMissed sends earlier ones. TurnOn does nothing if the webhook is on already.
// Errors: *UnknownWebhookError, ErrPaused.
func (s *Store) TurnOn(ctx context.Context, webhookID string) (*Webhook, error) {
	err := s.change(ctx, webhookID, func(tx pgx.Tx, w *named) error {
		var epoch int
		err := tx.QueryRow(ctx, `
			UPDATE webhook SET state = 'on', version = version + 1, epoch = epoch + 1,
			       failing_since = NULL, failures = '{}', warned = 0,
			       turned_off_at = NULL, turned_off_for = NULL, turned_off_since = NULL, turned_off_reason = NULL
			 WHERE workspace_id = $1 AND webhook_id = $2 AND state = 'off' RETURNING epoch`, w.workspaceID, webhookID).Scan(&epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // on already
		}
		if err != nil {
			return fmt.Errorf("turn webhook %s on: %w", webhookID, err)
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_cursor c SET position = h.position, replay_position = NULL, replay_until = NULL
			  FROM log_head h
			 WHERE c.workspace_id = $1 AND c.webhook_id = $2 AND h.workspace_id = $1`, w.workspaceID, webhookID)
		if err != nil {
			return fmt.Errorf("move the cursor of webhook %s: %w", webhookID, err)
		}
		// A delivery that a user sent again while the webhook was off stays pending.
		_, err = tx.Exec(ctx, `
			UPDATE webhook_waiting SET epoch = $3 WHERE workspace_id = $1 AND webhook_id = $2 AND once AND epoch = $3 - 1`,
			w.workspaceID, webhookID, epoch)
		if err != nil {
			return fmt.Errorf("keep what is sent again to webhook %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookTurnOn, w, "")
	})
	if err != nil {
		return nil, err
	}
	w, err := s.Get(ctx, webhookID)
	if err != nil {
		return nil, err
	}
	if w.Paused() {
		return nil, ErrPaused
	}
	return w, nil
}

// ErrHistoryComes means that a workspace has just been moved here and its old deliveries are still
// being copied (docs/operations/moving.md), so it is not known yet which events were missed.
var ErrHistoryComes = errors.New("deliveries from before the workspace was moved here are still being copied; try again when ledgerfeed workspace move has ended")

// mayChange makes sure that a move of the workspace to another database does not lose the change.
// It returns an *eventlog.MovedError if the change is not possible here or now.
func mayChange(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	return eventlog.MayChange(ctx, tx, workspaceID, true)
}

// historyIsWhole returns ErrHistoryComes while the old deliveries of a workspace that was moved
// here are still being copied.
func historyIsWhole(ctx context.Context, tx pgx.Tx, workspaceID string) error {
	var comes bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace_move WHERE workspace_id = $1 AND state = 'open')`, workspaceID).Scan(&comes)
	if err != nil {
		return fmt.Errorf("look whether the deliveries of %s are whole: %w", workspaceID, err)
	}
	if comes {
		return ErrHistoryComes
	}
	return nil
}

// MaxWebhooks is the maximum number of webhooks per workspace (docs/contract/service.md, "Webhook
// setup").
const MaxWebhooks = 5

// ErrOff means that the operation needs a webhook that is on.
var ErrOff = errors.New("the webhook is off; turn it back on first")

// ErrPaused means that the operation is not possible while the webhook is paused.
var ErrPaused = errors.New("the webhook is paused; resume it first, or send a single delivery again")

// ErrNotFinished means that the delivery is still pending.
var ErrNotFinished = errors.New("the delivery is pending; it will be retried automatically")

// ErrFinished means that the delivery is no longer pending.
var ErrFinished = errors.New("the delivery has finished and is not tried again; send it again instead")

// ErrUnderWay means that the delivery's next attempt is due, so a dispatcher is making it.
var ErrUnderWay = errors.New("the next attempt is being made now")

// ErrTooManyDeliveries means that more than MaxResend deliveries were chosen.
var ErrTooManyDeliveries = fmt.Errorf("at most %d deliveries are sent again at once", MaxResend)

// ErrTooManyWebhooks means that the workspace has MaxWebhooks webhooks already.
var ErrTooManyWebhooks = fmt.Errorf("a workspace has at most %d webhooks", MaxWebhooks)

// ErrLocked means that another transaction, such as a psql session, held a webhook's rows for
// longer than StoreConfig.LockTimeout.
var ErrLocked = errors.New("another transaction has held the webhook's rows for too long; nothing was changed; try again, or end that transaction")

// UnknownWebhookError names a webhook that does not exist.
type UnknownWebhookError struct{ WebhookID string }

// Error names the webhook.
func (e *UnknownWebhookError) Error() string {
	return fmt.Sprintf("there is no webhook %q", e.WebhookID)
}

// UnknownDeliveryError names a delivery that does not exist, or no longer does.
type UnknownDeliveryError struct{ DeliveryID string }

// Error names the delivery.
func (e *UnknownDeliveryError) Error() string {
	return fmt.Sprintf("there is no delivery %q", e.DeliveryID)
}

// EventsError says what is wrong with a choice of event types.
type EventsError struct{ Reason string }

// Error is a sentence for the user.
func (e *EventsError) Error() string { return e.Reason }

// TextError says what is wrong with a webhook's name or description.
type TextError struct {
	Field  string // "name" or "description"
	Reason string
}

// Error is a sentence for the user.
func (e *TextError) Error() string { return "the " + e.Field + " " + e.Reason }

// SinceError says what is wrong with the time from which to send missed events.
type SinceError struct{ Reason string }

// Error is a sentence for the user.
func (e *SinceError) Error() string { return e.Reason }
