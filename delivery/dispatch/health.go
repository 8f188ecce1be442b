package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch/scheduler"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// changeHealth carries out a change of a webhook's health. It tries again until that works or ctx ends.
// What a crash leaves undone is in the webhook's row: the next failure turns it off, and the process
// that takes over makes what is pending due.
func (d *Dispatcher) changeHealth(ctx context.Context, c *scheduler.HealthChange) scheduler.Event {
	for {
		err := d.changeHealthOnce(ctx, c)
		if err == nil || ctx.Err() != nil {
			return scheduler.HealthChanged{Change: c}
		}
		d.logger.WarnContext(ctx, "cannot turn off a failing webhook or store a mail about it; trying again", "webhook", c.Key.WebhookID, "error", err)
		flow.Sleep(ctx, 4*retryPause)
	}
}

// changeHealthOnce may be repeated after an error: only the first success finds the webhook in the
// epoch of the decision, and each mail is stored once.
func (d *Dispatcher) changeHealthOnce(ctx context.Context, c *scheduler.HealthChange) error {
	if c.Change == policy.Recovered {
		return d.recover(ctx, c)
	}
	if c.Change == policy.Failing { // the record has stored the mail
		d.logHealth(ctx, "a webhook is failing", c)
		d.mailer.SendSoon()
		return nil
	}
	turnedOff := false
	// It keeps a connection while it waits for a lock, so it does not wait long.
	err := pg.InLimitedTx(ctx, d.store.pool, lockTimeout, func(tx pgx.Tx) (err error) {
		if turnedOff, err = turnOff(ctx, tx, c); err != nil || !turnedOff {
			return err
		}
		return d.mailer.Store(ctx, tx, notification(c, d.cfg.Settings.TurnOffAfter))
	})
	if err != nil || !turnedOff {
		return err
	}
	message := "turned off a webhook, because every attempt failed"
	if c.Change == policy.TurnOffGone {
		message = "turned off a webhook, because its receiver answered 410 (Gone) to two deliveries in a row"
	}
	d.logHealth(ctx, message, c)
	d.mailer.SendSoon()
	return d.store.cancelOutdated(ctx, c.Key) // what one chunk did not cover
}

// queueWarnings stores the mails about webhooks that are failing with the record that counts them as
// warned of: a crash between the two would lose a mail for good.
func (d *Dispatcher) queueWarnings(b *pgx.Batch, changes []*scheduler.HealthChange) {
	for _, c := range changes {
		if c.Change == policy.Failing {
			d.mailer.Queue(b, notification(c, d.cfg.Settings.TurnOffAfter))
		}
	}
}

// turnOff turns a webhook off and cancels up to cancelChunk pending deliveries. It returns false if
// the webhook was changed since the decision.
func turnOff(ctx context.Context, tx pgx.Tx, c *scheduler.HealthChange) (bool, error) {
	var url, name string
	err := tx.QueryRow(ctx, `
		UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1,
		       turned_off_at = $4, turned_off_for = $5, turned_off_since = $6, turned_off_reason = $8, failures = '{}'
		 WHERE workspace_id = $1 AND webhook_id = $2 AND epoch = $3 AND url_version = $7 AND state = 'on' RETURNING url, name`,
		c.Key.WorkspaceID, c.Key.WebhookID, c.Endpoint.Epoch, c.At, c.Reason, c.Since, c.Endpoint.AddressVersion, offReason(c.Change)).Scan(&url, &name)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("turn off webhook %s: %w", c.Key.WebhookID, err)
	}
	detail := "every attempt has failed since " + c.Since.UTC().Format(time.RFC3339) + "; the last one: " + c.Reason
	if c.Change == policy.TurnOffGone {
		detail = "the receiver answered 410 (Gone) to two deliveries in a row"
	}
	err = audit.Add(audit.AsService(ctx), tx, c.At, audit.Change{
		WorkspaceID: c.Key.WorkspaceID, Action: audit.WebhookTurnOff, ObjectID: c.Key.WebhookID, ObjectName: attempt.Label(name, url), Detail: detail,
	})
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, `SELECT webhook_cancel($1, $2, $3)`, c.Key.WorkspaceID, c.Key.WebhookID, cancelChunk); err != nil {
		return false, fmt.Errorf("cancel the pending deliveries of %s: %w", c.Key.WebhookID, err)
	}
	return true, nil
}

// offReason returns the reason for the webhook's row.
func offReason(c policy.Change) string {
	if c == policy.TurnOffGone {
		return "gone"
	}
	return "failing"
}

// logHealth logs a change of health. It names only the host, because the rest of an address may
// hold a token.
func (d *Dispatcher) logHealth(ctx context.Context, message string, c *scheduler.HealthChange) {
	d.logger.WarnContext(ctx, message,
		"workspace", c.Key.WorkspaceID, "webhook", c.Key.WebhookID, "host", c.Endpoint.URL.Host, "failing_since", c.Since, "error", c.Reason)
}

// notification returns the mail to the finance team about a change (docs/contract/decisions.md,
// "Webhooks").
func notification(c *scheduler.HealthChange, turnOffAfter time.Duration) *mail.Notification {
	var subject, what, next string
	after := texts.Duration(turnOffAfter)
	label := shorten(attempt.Label(c.Endpoint.Name, c.Endpoint.Address))
	switch c.Change {
	case policy.TurnOff:
		subject = "Webhook turned off: " + label
		what = "was turned off, because every attempt to deliver to it has failed for " + after + " or longer."
		next = "Nothing more is sent to it. Once the receiver works again, turn the webhook back on under\n" +
			"Settings, Integrations, Webhooks, and send what was missed from there.\n"
	case policy.TurnOffGone:
		subject = "Webhook turned off: " + label
		what = "was turned off, because its receiver answered 410 (Gone) to two deliveries in a row:\nit wants no more messages."
		next = "Nothing more is sent to it. If it is to get messages again, correct the address or repair the receiver,\n" +
			"turn the webhook back on under Settings, Integrations, Webhooks, and send what was missed from there.\n"
	case policy.Failing, policy.NoChange, policy.Recovered:
		subject = "Webhook failing: " + label
		what = "is failing: no attempt to deliver to it has succeeded since then."
		next = "Failed messages are tried again for a while. If every attempt fails for " + after + ", for at least two events,\nthe webhook is turned off.\n"
	}
	var b strings.Builder
	b.WriteString("The webhook\n\n")
	if c.Endpoint.Name != "" {
		fmt.Fprintf(&b, "    %s\n", c.Endpoint.Name)
	}
	fmt.Fprintf(&b, "    %s\n\n%s\n\n", attempt.Shown(c.Endpoint.Address), what)
	fmt.Fprintf(&b, "Workspace:      %s\nFailing since:  %s\nReason:         %s\n",
		c.Key.WorkspaceID, c.Since.UTC().Format("2 January 2006, 15:04 UTC"), c.Reason)
	if c.Answer == "" {
		b.WriteString("Last answer:    (none)\n")
	} else {
		fmt.Fprintf(&b, "Last answer:\n\n%s\n", indent(c.Answer))
	}
	b.WriteString("\n" + next)
	// The same change always has the same id, so that it is stored once.
	id := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d/%d/%d", c.Key.WebhookID, c.Endpoint.Epoch, c.Change, c.At.UnixNano()))
	return &mail.Notification{ID: "mail_" + id.String(), WorkspaceID: c.Key.WorkspaceID, WebhookID: c.Key.WebhookID, Subject: subject, Body: b.String()}
}

// longestLabel is the maximum length of a webhook's label in a subject, in characters. A path can
// be long, and mail programs show little more.
const longestLabel = 160

func shorten(label string) string {
	if r := []rune(label); len(r) > longestLabel {
		return string(r[:longestLabel-1]) + "…"
	}
	return label
}

// indent indents a receiver's response to set it apart from our own text, and replaces control
// characters with spaces.
func indent(answer string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, answer)
	return "    " + strings.ReplaceAll(strings.TrimRight(clean, "\n"), "\n", "\n    ")
}
