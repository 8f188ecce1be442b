package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// The maximum lengths of a webhook's name and description, in characters.
const (
	MaxName        = 100
	MaxDescription = 500
)

// Definition is the part of a webhook that a user chooses.
type Definition struct {
	URL         string   // where events are sent; see attempt.CheckAddress
	Events      []string // event types, or AllEvents alone
	Name        string   // up to MaxName characters; empty: none
	Description string   // up to MaxDescription characters; empty: none
	Standard    bool     // messages also carry the Standard Webhooks headers
}

// Change is a change of a webhook's Definition; nil fields stay as they are.
type Change struct {
	URL               *string
	Events            []string
	Name, Description *string
	Standard          *bool
}

// checkText checks a name or a description, which must fit on one line of a page, a mail or a
// terminal.
func checkText(field, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return &TextError{field, "must be UTF-8"}
	case utf8.RuneCountInString(text) > most:
		return &TextError{field, fmt.Sprintf("must have at most %d characters", most)}
	case strings.TrimSpace(text) != text:
		return &TextError{field, "must not begin or end with a space"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &TextError{field, "must not hold control characters"}
	}
	return nil
}

// checkEvents checks a choice of event types and returns it in the order of the
// catalogue; nil means all.
func checkEvents(events []string) ([]string, error) {
	if len(events) == 0 {
		return nil, &EventsError{"choose event types, or all"}
	}
	if slices.Contains(events, AllEvents) {
		if len(events) > 1 {
			return nil, &EventsError{"choose either all, or single event types"}
		}
		return nil, nil
	}
	known := domain.PublicTypes()
	for _, e := range events {
		if !slices.Contains(known, e) {
			return nil, &EventsError{fmt.Sprintf("there is no event type %q; choose all, or some of %s%s", e, strings.Join(known, ", "), texts.DidYouMean(e, known))}
		}
	}
	return slices.DeleteFunc(known, func(k string) bool { return !slices.Contains(events, k) }), nil
}

// Check returns all faults that Create or Edit would find in a change: *attempt.AddressError,
// *EventsError and *TextError, joined.
func (s *Store) Check(c Change) error {
	_, err := s.check(&c)
	return err
}

// check is Check. It also returns the event types as the row stores them.
func (s *Store) check(c *Change) (types []string, err error) {
	var errs []error
	if c.URL != nil {
		errs = append(errs, attempt.CheckAddress(*c.URL, s.cfg.Settings.Allow))
	}
	if c.Events != nil {
		types, err = checkEvents(c.Events)
		errs = append(errs, err)
	}
	if c.Name != nil {
		errs = append(errs, checkText("name", *c.Name, MaxName))
	}
	if c.Description != nil {
		errs = append(errs, checkText("description", *c.Description, MaxDescription))
	}
	return types, errors.Join(errs...)
}

// Create adds a webhook, which gets the events appended from now on. Its secret cannot be read
// again later. Errors: *attempt.AddressError, *EventsError and *TextError, joined;
// *domain.UnknownWorkspaceError, ErrTooManyWebhooks, *keyring.MissingError.
func (s *Store) Create(ctx context.Context, workspaceID string, d Definition) (*WithSecret, error) {
	choice := d.Events
	if choice == nil {
		choice = []string{} // no event types, which is an error; nil would mean unchanged
	}
	types, err := s.check(&Change{URL: &d.URL, Events: choice, Name: &d.Name, Description: &d.Description})
	if err != nil {
		return nil, err
	}
	secret, err := attempt.NewSecret(s.cfg.Random)
	if err != nil {
		return nil, err
	}
	unique, err := uuid.NewV7FromReader(s.cfg.Random)
	if err != nil {
		return nil, fmt.Errorf("make a webhook id: %w", err)
	}
	id := "wh_" + unique.String()
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := mayChange(ctx, tx, workspaceID); err != nil {
			return err
		}
		sealed, err := s.seal(ctx, tx, workspaceID, id, secret)
		if err != nil {
			return err
		}
		w := &newWebhook{workspaceID: workspaceID, id: id, Definition: d, types: types, sealedSecret: sealed, createdAt: s.now()}
		if err := insertWebhook(ctx, tx, w); err != nil {
			return err
		}
		return s.addToAudit(ctx, tx, audit.WebhookCreate, &named{workspaceID, id, d.URL, d.Name}, eventsDetail(types))
	})
	if err != nil {
		return nil, err
	}
	created, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &WithSecret{Webhook: *created, Secret: secret}, nil
}

// newWebhook is the row of a new webhook.
type newWebhook struct {
	workspaceID, id string
	Definition
	types        []string
	sealedSecret []byte
	createdAt    time.Time
}

// insertWebhook inserts a webhook and its cursor. It locks the workspace, so that two concurrent
// calls cannot both create its fifth webhook.
func insertWebhook(ctx context.Context, tx pgx.Tx, w *newWebhook) error {
	var n int
	err := tx.QueryRow(ctx, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR NO KEY UPDATE`, w.workspaceID).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return &domain.UnknownWorkspaceError{WorkspaceID: w.workspaceID}
	}
	if err != nil {
		return fmt.Errorf("lock workspace %s: %w", w.workspaceID, err)
	}
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhook WHERE workspace_id = $1`, w.workspaceID).Scan(&n); err != nil {
		return fmt.Errorf("count the webhooks of %s: %w", w.workspaceID, err)
	}
	if n >= MaxWebhooks {
		return ErrTooManyWebhooks
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook (workspace_id, webhook_id, url, events, created_at, secret, name, description, standard_headers) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		w.workspaceID, w.id, w.URL, w.types, w.createdAt, w.sealedSecret, w.Name, w.Description, w.Standard)
	if err != nil {
		return fmt.Errorf("insert a webhook: %w", err)
	}
	_, err = tx.Exec(ctx, `
		WITH head AS MATERIALIZED (SELECT workspace_id, $2::text, position FROM log_head WHERE workspace_id = $1)
		INSERT INTO webhook_cursor (workspace_id, webhook_id, position)
		SELECT * FROM head`, w.workspaceID, w.id)
	if err != nil {
		return fmt.Errorf("insert a webhook's cursor: %w", err)
	}
	return nil
}

// Edit changes a webhook, for messages sent from now on. A new address also clears the failure
// count and the warnings, and makes pending deliveries due at once. Errors: *attempt.AddressError,
// *EventsError and *TextError, joined; *UnknownWebhookError.
func (s *Store) Edit(ctx context.Context, webhookID string, c Change) (*Webhook, error) {
	types, err := s.check(&c)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, webhookID, func(tx pgx.Tx, w *named) error {
		details, err := choiceDetail(ctx, tx, w, &c, types)
		if err != nil {
			return err
		}
		if c.Name != nil && *c.Name != w.name {
			details = append(details, fmt.Sprintf("name before: %q", w.name))
			w.name = *c.Name
		}
		moved := c.URL != nil && *c.URL != w.url
		if moved {
			details = append(details, "address before: "+attempt.Shown(w.url))
			w.url = *c.URL
		}
		if c.Description != nil {
			details = append(details, fmt.Sprintf("description: %q", *c.Description))
		}
		if c.Standard != nil {
			details = append(details, fmt.Sprintf("headers of Standard Webhooks: %t", *c.Standard))
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook SET version = version + 1, url = $3, name = $4, description = coalesce($5, description),
			       events = CASE WHEN $6 THEN $7 ELSE events END,
			       standard_headers = coalesce($8, standard_headers),
			       url_version = CASE WHEN $9 THEN version + 1 ELSE url_version END,
			       failing_since = CASE WHEN NOT $9 THEN failing_since END, warned = CASE WHEN $9 THEN 0 ELSE warned END,
			       failures = CASE WHEN $9 THEN '{}' ELSE failures END
			 WHERE workspace_id = $1 AND webhook_id = $2`, w.workspaceID, w.id, w.url, w.name, c.Description, c.Events != nil, types, c.Standard, moved)
		if err != nil {
			return fmt.Errorf("edit webhook %s: %w", webhookID, err)
		}
		if moved {
			if err := dueNow(ctx, tx, w, s.now()); err != nil {
				return err
			}
		}
		return s.addToAudit(ctx, tx, audit.WebhookEdit, w, strings.Join(details, "; "))
	})
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, webhookID)
}

// dueNow makes the pending deliveries of a webhook due at once.
func dueNow(ctx context.Context, tx pgx.Tx, w *named, now time.Time) error {
	if err := byKey(ctx, tx); err != nil {
		return fmt.Errorf("send what is pending for %s: %w", w.id, err)
	}
	_, err := tx.Exec(ctx, `
		WITH due AS (
		    UPDATE webhook_waiting SET next_attempt_at = $3 WHERE workspace_id = $1 AND webhook_id = $2 AND next_attempt_at > $3
		    RETURNING workspace_id, webhook_id, position, created_at)
		UPDATE webhook_delivery d SET next_attempt_at = $3 FROM due q
		 WHERE d.workspace_id = q.workspace_id AND d.webhook_id = q.webhook_id AND d.position = q.position AND d.created_at = q.created_at AND d.state = 'pending'`,
		w.workspaceID, w.id, now)
	if err != nil {
		return fmt.Errorf("send what is pending for %s: %w", w.id, err)
	}
	return nil
}

// choiceDetail returns the audit trail's text about the event types that a change chooses, if they
// differ from the webhook's.
func choiceDetail(ctx context.Context, tx pgx.Tx, w *named, c *Change, types []string) ([]string, error) {
	if c.Events == nil {
		return nil, nil
	}
	var before []string
	if err := tx.QueryRow(ctx, `SELECT events FROM webhook WHERE workspace_id = $1 AND webhook_id = $2`, w.workspaceID, w.id).Scan(&before); err != nil {
		return nil, fmt.Errorf("read the event types of webhook %s: %w", w.id, err)
	}
	// An older version may have had another order of the catalogue.
	if (before == nil) == (types == nil) && slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(types))) {
		return nil, nil
	}
	return []string{eventsDetail(types)}, nil
}
