package delivery

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// alarm tells the finance team that a webhook fails, or turns it off and tells
// them that. Repeating it after an error is safe: only the first time finds
// the webhook as it was when it was decided.
func (e *Engine) alarm(ctx context.Context, a alarm) error {
	k := a.lane.key
	turnedOff := false
	err := pg.InTx(ctx, e.rows.pool, func(tx pgx.Tx) error {
		if a.kind == TurnedOff {
			tag, err := tx.Exec(ctx, `
				UPDATE webhook SET state = 'off', version = version + 1, epoch = epoch + 1,
				       turned_off_at = $4, turned_off_for = $5, failure_marks = '{}'
				 WHERE workspace_id = $1 AND webhook_id = $2 AND epoch = $3 AND state = 'on'`,
				k.workspaceID, k.webhookID, a.hook.epoch, a.at, a.reason)
			if err != nil {
				return fmt.Errorf("turn webhook %s off: %w", k.webhookID, err)
			}
			if tag.RowsAffected() == 0 {
				return nil // somebody changed it meanwhile
			}
			turnedOff = true
			if _, err := tx.Exec(ctx, `SELECT webhook_cancel($1, $2, $3)`, k.workspaceID, k.webhookID, cancelChunk); err != nil {
				return fmt.Errorf("cancel the waiting deliveries of %s: %w", k.webhookID, err)
			}
		}
		return e.mailer.enqueue(ctx, tx, k, e.letter(a))
	})
	if err != nil {
		return err
	}
	e.logAlarm(ctx, a, turnedOff)
	e.mailer.kick()
	if turnedOff {
		return e.rows.cancelVoid(ctx, k) // what was more than one chunk
	}
	return nil
}

func (e *Engine) logAlarm(ctx context.Context, a alarm, turnedOff bool) {
	say := "a webhook is failing"
	switch {
	case turnedOff:
		say = "a webhook was turned off, because every attempt failed"
	case a.kind == TurnedOff:
		return
	}
	e.logger.WarnContext(ctx, say,
		"workspace", a.lane.key.workspaceID, "webhook", a.lane.key.webhookID, "url", a.hook.address,
		"failing_since", a.since, "error", a.reason)
}

// letter is a mail without its addressee.
type letter struct{ id, subject, body string }

// letter is what the finance team reads about an alarm (docs/contract/decisions.md,
// "Webhooks").
func (e *Engine) letter(a alarm) letter {
	var subject, what, then string
	after := inWords(e.cfg.Settings.TurnOffAfter)
	switch a.kind {
	case TurnedOff:
		subject = "Webhook turned off: " + a.hook.url.Host
		what = "was turned off, because every attempt to deliver to it has failed for " + after + "."
		then = "Nothing more is sent to it. Once the receiver works again, turn the webhook back on under\n" +
			"Settings, Integrations, Webhooks, and send the missed events from there.\n"
	case Failing, Quiet:
		subject = "Webhook failing: " + a.hook.url.Host
		what = "is failing: no attempt to deliver to it has succeeded since then."
		then = "Failed messages are tried again for a while. If every attempt fails for " + after + ",\nthe webhook is turned off.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The webhook\n\n    %s\n\n%s\n\n", a.hook.address, what)
	fmt.Fprintf(&b, "Workspace:      %s\nFailing since:  %s\nReason:         %s\n", a.lane.key.workspaceID, readable(a.since), a.reason)
	if a.answer == "" {
		b.WriteString("Last answer:    (none)\n")
	} else {
		fmt.Fprintf(&b, "Last answer:\n\n%s\n", indent(a.answer))
	}
	b.WriteString("\n" + then)
	// The same alarm always has the same id, so that it is put down once.
	id := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d/%d/%d", a.lane.key.webhookID, a.hook.epoch, a.kind, a.at.UnixNano()))
	return letter{id: "mail_" + id.String(), subject: subject, body: b.String()}
}

func readable(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// inWords says a time in the largest unit in which it is whole.
func inWords(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.size; d%u.size == 0 && n > 0 {
			if n == 1 {
				return "1 " + u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return d.String()
}

// indent keeps a receiver's answer apart from what we say, and from looking
// like anything else than text.
func indent(answer string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, answer)
	return "    " + strings.ReplaceAll(strings.TrimRight(clean, "\n"), "\n", "\n    ")
}
