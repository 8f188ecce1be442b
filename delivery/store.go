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
	"github.com/jackc/pgx/v5/pgxpool"

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
	Pool     *pgxpool.Pool    // required
	Keyring  *keyring.Keyring // nil: no secrets are made
	Log      *eventlog.Log    // required; "Send test" appends to it
	Notify   eventlog.NotifyFunc
	Clock    func() time.Time // nil: time.Now
	Random   io.Reader        // source of secrets; nil: crypto/rand.Reader
	Settings policy.Settings

	// LockTimeout is how long a change waits for rows that another transaction has locked. A
	// change that waits keeps a connection, and somebody looks at a page that does not come.
	// Default 5 s.
	LockTimeout time.Duration
}

// Store creates and changes webhooks, and shows what was delivered. Any number of
// goroutines and processes may call its methods. A method has taken effect when it
// returns without an error; the transaction of a change has a line in the audit trail
// about it. Errors that a method's comment does not name come from the database.
//
// A method that takes only a webhook's id finds it in any workspace. The caller
// checks with Get whether the user may see it.
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
	cfg.LockTimeout = cmp.Or(cfg.LockTimeout, defaultLockTimeout)
	return &Store{cfg: cfg}, nil
}

// now is the time with the precision of the database.
func (s *Store) now() time.Time { return s.cfg.Clock().UTC().Truncate(time.Microsecond) }

// changed tells dispatchers that a workspace's webhooks were changed.
func (s *Store) changed(workspaceID string) {
	if s.cfg.Notify != nil {
		s.cfg.Notify(eventlog.TopicProjected, workspaceID)
	}
}

const defaultLockTimeout = 5 * time.Second

// inTx runs do in a transaction, again if the database rolled it back because of others. Besides
// do's errors there is ErrLocked.
func (s *Store) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	err := pg.Again(ctx, func() error { return pg.InLimitedTx(ctx, s.cfg.Pool, s.cfg.LockTimeout, do) })
	if pg.Locked(err) {
		return fmt.Errorf("%w (after %v: %w)", ErrLocked, s.cfg.LockTimeout, err)
	}
	return err
}

// seal seals a secret for its row under the database's key, in the transaction that
// stores it.
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

// named is a webhook and what the audit trail names it by.
type named struct{ workspaceID, id, url, name string }

func (s *Store) addToAudit(ctx context.Context, tx pgx.Tx, action audit.Action, w *named, detail string) error {
	return audit.Add(ctx, tx, s.now(), audit.Change{WorkspaceID: w.workspaceID, Action: action, ObjectID: w.id, ObjectName: attempt.Label(w.name, w.url), Detail: detail})
}

// eventsDetail says in the audit trail which event types a webhook chose.
func eventsDetail(types []string) string {
	if types == nil {
		return "events: " + AllEvents
	}
	return "events: " + strings.Join(types, ", ")
}

// workspaceOf returns the workspace of a webhook, which never changes, so that statements
// that lock or write can name it. Errors: *UnknownWebhookError.
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

// change runs do on a webhook whose row is locked, in a transaction, and tells
// dispatchers to read it again. Errors: *UnknownWebhookError, ErrLocked, do's.
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

// lockTurns is how often a change tries to lock its webhook: where many change one at once, the
// last turn waits in line.
const lockTurns = 10

// lock locks the webhook's row, and reads what the audit trail names it by. With NOWAIT it
// fails when another transaction has the row. A transaction that has locked the workspace
// (mayChange) waits for the row of a webhook in the last turn alone, because other changes of the
// workspace wait with it. Errors: *UnknownWebhookError.
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

// Delete removes a webhook. Messages that are under way may still arrive. Errors:
// *UnknownWebhookError.
func (s *Store) Delete(ctx context.Context, webhookID string) error {
	return s.change(ctx, webhookID, func(tx pgx.Tx, w *named) error {
		if _, err := tx.Exec(ctx, `DELETE FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.workspaceID, w.id); err != nil {
			return fmt.Errorf("delete webhook %s: %w", webhookID, err)
		}
		return s.addToAudit(ctx, tx, audit.WebhookDelete, w, "")
	})
}

// Test appends a test.ping to the log, which is delivered to this webhook only,
// whatever event types it chose. It returns the event's id. Errors:
// *UnknownWebhookError, ErrOff, ErrPaused.
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
		// The append comes first: it may wait for a producer's transaction, and other changes wait
		// for a transaction that has called mayChange.
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

// TurnOn turns a webhook back on and clears its count of failures. It gets the
// events appended from now on; SendMissed sends earlier ones. A webhook that is on
// stays as it is. Errors:
// *UnknownWebhookError, ErrPaused.
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
		// A delivery that was sent again while it was off, and is pending, stays pending.
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
