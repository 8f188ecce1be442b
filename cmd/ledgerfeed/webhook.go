package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/tryout"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

func webhookCommand(env *operate.Env) *cobra.Command {
	c := cli.Group("webhook", "Create, change, test and inspect webhooks",
		webhookCreateCommand(env), webhookListCommand(env), webhookEditCommand(env), webhookDeleteCommand(env), webhookRotateCommand(env),
		webhookTestCommand(env), webhookTurnOnCommand(env), webhookPauseCommand(env), webhookResumeCommand(env), webhookDeliveriesCommand(env), webhookResendCommand(env), webhookRetryCommand(env), webhookRecoverCommand(env), webhookMissedCommand(env), tryout.ListenCommand(env))
	c.Long = `Create, change, test and inspect webhooks.

Some settings affect these commands and have to be the same as for serve:

  LEDGERFEED_SECRET_KEY       create, rotate-secret
  LEDGERFEED_WEBHOOK_ALLOW    create, edit
  LEDGERFEED_SECRET_OVERLAP   rotate-secret, which prints when the old secret ends
  LEDGERFEED_RETENTION        deliveries, resume, resend, retry, recover, send-missed
  LEDGERFEED_BRAND            listen`
	return c
}

// withWebhooks does the work of a command with the store of webhooks, which makes
// secrets only if it is told so. Input that the store refuses is wrong usage.
func withWebhooks(ctx context.Context, env *operate.Env, secrets bool, work func(*delivery.Store) error) error {
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		store, err := d.Webhooks()
		if secrets {
			store, err = d.WebhooksWithKey(ctx)
		}
		if err != nil {
			return err
		}
		err = work(store)
		var (
			address *attempt.AddressError
			events  *delivery.EventsError
			text    *delivery.TextError
			since   *delivery.SinceError
		)
		if errors.As(err, &address) || errors.As(err, &events) || errors.As(err, &text) || errors.As(err, &since) {
			return &cli.UsageError{Err: err}
		}
		return err
	})
}

// ofWebhook makes a command about the one webhook or delivery that its argument
// names.
func ofWebhook(env *operate.Env, use, short string, work func(ctx context.Context, store *delivery.Store, id string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return withWebhooks(ctx, env, false, func(store *delivery.Store) error { return work(ctx, store, args[0]) })
		}),
	}
}

func webhookCreateCommand(env *operate.Env) *cobra.Command {
	var (
		workspace string
		d         delivery.Definition
	)
	c := &cobra.Command{
		Use:   "create",
		Short: "Add a webhook; its secret is shown once",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if workspace == "" || d.URL == "" {
				return cli.Usagef("want --workspace and --url")
			}
			return withWebhooks(ctx, env, true, func(store *delivery.Store) error {
				made, err := store.Create(ctx, workspace, d)
				if err != nil {
					return explainAddress(err, "--workspace "+workspace+" ", d.URL)
				}
				return printSecret(env, made)
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace whose events the webhook gets (required)")
	c.Flags().StringVar(&d.URL, "url", "", "the https:// address that gets the events (required)")
	c.Flags().StringSliceVar(&d.Events, "events", []string{delivery.AllEvents}, eventsUsage())
	c.Flags().StringVar(&d.Name, "name", "", nameUsage())
	c.Flags().StringVar(&d.Description, "description", "", descriptionUsage())
	c.Flags().BoolVar(&d.Standard, "standard-headers", true, standardUsage+"; =false leaves them out")
	return c
}

// explainAddress says what to do when an address is refused because it is not encrypted or not public.
// flags are those of the command that it names.
func explainAddress(err error, flags, address string) error {
	refused, ok := errors.AsType[*attempt.AddressError](err)
	if !ok || !refused.Private() {
		return err
	}
	allow := ""
	if refused.Encrypted() {
		allow = "; to allow its network, set LEDGERFEED_WEBHOOK_ALLOW for serve and for this command"
	}
	said := err.Error()
	if !strings.HasSuffix(said, "?") {
		said += "."
	}
	return cli.Usagef("%s To try it on this machine, run ledgerfeed webhook listen %s--forward-to %s%s", said, flags, address, allow)
}

const standardUsage = "also send the headers of Standard Webhooks"

func eventsUsage() string {
	return "event types, separated by commas, or all: " + strings.Join(domain.PublicTypes(), ", ")
}

func nameUsage() string {
	return fmt.Sprintf("a name for the receiver, up to %d characters", delivery.MaxName)
}

func descriptionUsage() string {
	return fmt.Sprintf("what the webhook is for, or who looks after it, up to %d characters", delivery.MaxDescription)
}

func webhookEditCommand(env *operate.Env) *cobra.Command {
	var d delivery.Definition
	var c *cobra.Command
	c = ofWebhook(env, "edit WEBHOOK", "Change a webhook's address, event types, name, description or headers", func(ctx context.Context, store *delivery.Store, id string) error {
		given := c.Flags().Changed
		var change delivery.Change
		if given("url") {
			change.URL = &d.URL
		}
		if given("events") {
			change.Events = d.Events
		}
		if given("name") {
			change.Name = &d.Name
		}
		if given("description") {
			change.Description = &d.Description
		}
		if given("standard-headers") {
			change.Standard = &d.Standard
		}
		if change.URL == nil && change.Events == nil && change.Name == nil && change.Description == nil && change.Standard == nil {
			return cli.Usagef("want --url, --events, --name, --description or --standard-headers")
		}
		webhook, err := store.Edit(ctx, id, change)
		if err != nil {
			return explainAddress(err, "", d.URL)
		}
		return env.Print(webhook, func(out io.Writer) error { return writeWebhooks(out, []delivery.Webhook{*webhook}) })
	})
	c.Long = `Change a webhook's address, event types, name, description or headers.

A webhook with a new address starts anew: it no longer counts as failing, and its pending
deliveries go to the new address at once.`
	c.Flags().StringVar(&d.URL, "url", "", "the https:// address that gets the events")
	c.Flags().StringSliceVar(&d.Events, "events", nil, eventsUsage())
	c.Flags().StringVar(&d.Name, "name", "", nameUsage()+`; "" removes it`)
	c.Flags().StringVar(&d.Description, "description", "", descriptionUsage()+`; "" removes it`)
	c.Flags().BoolVar(&d.Standard, "standard-headers", false, standardUsage+"; =false turns this off")
	return c
}

func printSecret(env *operate.Env, w *delivery.WithSecret) error {
	return env.Print(w, env.Line(w.ID+"\n"+w.Secret, "The signing secret is shown once; the receiver needs it."))
}

func webhookListCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "list",
		Short: "List a workspace's webhooks",
		Args:  cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if workspace == "" {
				return cli.Usagef("want --workspace")
			}
			return withWebhooks(ctx, env, false, func(store *delivery.Store) error {
				list, err := store.List(ctx, workspace)
				if err != nil {
					return err
				}
				if list == nil {
					list = []delivery.Webhook{}
				}
				return env.Print(list, func(out io.Writer) error { return writeWebhooks(out, list) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace (required)")
	return c
}

func writeWebhooks(out io.Writer, list []delivery.Webhook) error {
	err := cli.Table(out, "ID\tSTATE\tNAME\tADDRESS\tEVENTS\tFAILING SINCE", list, func(w *delivery.Webhook) string {
		state := w.State
		switch {
		case w.Paused():
			state = "paused"
		case w.On() && !w.FailingSince.IsZero():
			state = "failing"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", w.ID, state, cmp.Or(w.Name, "-"), w.Shown(), strings.Join(w.Events, ","), timeOr(w.FailingSince))
	})
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Description != "" {
			fmt.Fprintf(out, "%s: %s\n", list[i].ID, list[i].Description)
		}
		if list[i].Notice != nil {
			fmt.Fprintf(out, "%s: %s\n", list[i].ID, *list[i].Notice)
		}
		if n := list[i].ExpiredEvents; n > 0 {
			fmt.Fprintf(out, "%s: events that were past the retention when their turn came, and were not sent: %d\n", list[i].ID, n)
		}
	}
	return nil
}

func webhookDeleteCommand(env *operate.Env) *cobra.Command {
	return ofWebhook(env, "delete WEBHOOK", "Delete a webhook", func(ctx context.Context, store *delivery.Store, id string) error {
		if err := store.Delete(ctx, id); err != nil {
			return err
		}
		return env.Print(map[string]any{"id": id, "deleted": true}, env.Line("deleted "+id))
	})
}

func webhookRotateCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-secret WEBHOOK", Short: "Give a webhook a new secret; the old one also signs for a while", Args: cli.ExactArgs(1),
		Long: fmt.Sprintf(`Give a webhook a new secret. The command shows it once.

The old secret also signs messages until LEDGERFEED_SECRET_OVERLAP is over. Secrets of
earlier rotations sign until their own time is over. At most %d secrets sign at the same
time. The command refuses a rotation that would need more.`, delivery.MaxSecrets),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return withWebhooks(ctx, env, true, func(store *delivery.Store) error {
				webhook, err := store.RotateSecret(ctx, args[0])
				if err != nil {
					return err
				}
				tellOldSecrets(env.ErrOut, webhook.OldSecretsUntil)
				return printSecret(env, webhook)
			})
		}),
	}
}

// tellOldSecrets says until when messages are signed with older secrets, too.
func tellOldSecrets(out io.Writer, ends []delivery.Time) {
	switch len(ends) {
	case 0:
	case 1:
		fmt.Fprintf(out, "Messages are signed with both secrets until %s.\n", domain.FormatTime(ends[0].Time))
	default:
		fmt.Fprintf(out, "Messages are signed with %d secrets. The older ones end, newest first:\n", len(ends)+1)
		for _, end := range ends {
			fmt.Fprintf(out, "  %s\n", domain.FormatTime(end.Time))
		}
	}
}

func webhookTestCommand(env *operate.Env) *cobra.Command {
	return ofWebhook(env, "test WEBHOOK", "Send a test.ping to a webhook", func(ctx context.Context, store *delivery.Store, id string) error {
		event, err := store.Test(ctx, id)
		if err != nil {
			return err
		}
		return env.Print(map[string]string{"event_id": event, "delivery_id": event + "_" + id}, env.Line(event))
	})
}

func webhookTurnOnCommand(env *operate.Env) *cobra.Command {
	return ofWebhook(env, "turn-on WEBHOOK", "Turn a webhook back on", func(ctx context.Context, store *delivery.Store, id string) error {
		webhook, err := store.TurnOn(ctx, id)
		if err != nil {
			return err
		}
		return env.Print(webhook, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "to send what it missed and what failed: ledgerfeed webhook send-missed %[1]s --since TIME, and ledgerfeed webhook recover %[1]s --since TIME\n", id)
			return errors.Join(writeWebhooks(out, []delivery.Webhook{*webhook}), err)
		})
	})
}

func webhookPauseCommand(env *operate.Env) *cobra.Command {
	return ofSwitched(env, "pause WEBHOOK", "Pause a webhook: its events wait until you resume it", (*delivery.Webhook).Pause)
}

func webhookResumeCommand(env *operate.Env) *cobra.Command {
	return ofSwitched(env, "resume WEBHOOK", "Resume a paused webhook, beginning with the events that waited", (*delivery.Webhook).Resume)
}

// ofSwitched makes a command that pauses a webhook or resumes it.
func ofSwitched(env *operate.Env, use, short string, work func(*delivery.Webhook, context.Context, *delivery.Store) (*delivery.Webhook, error)) *cobra.Command {
	return ofWebhook(env, use, short, func(ctx context.Context, store *delivery.Store, id string) error {
		webhook, err := store.Get(ctx, id)
		if err != nil {
			return err
		}
		if webhook, err = work(webhook, ctx, store); err != nil {
			return err
		}
		return env.Print(webhook, func(out io.Writer) error { return writeWebhooks(out, []delivery.Webhook{*webhook}) })
	})
}

func webhookDeliveriesCommand(env *operate.Env) *cobra.Command {
	var q delivery.Query
	c := ofWebhook(env, "deliveries WEBHOOK", "List a webhook's recent deliveries, newest first", func(ctx context.Context, store *delivery.Store, id string) error {
		list := []delivery.Delivery{}
		left := q.Limit
		for page := q; left > 0; {
			page.Limit = left
			found, err := store.Deliveries(ctx, id, page)
			if err != nil {
				return err
			}
			list = append(list, found.Deliveries...)
			left -= len(found.Deliveries)
			if page.Cursor = found.Next; page.Cursor == "" {
				break
			}
		}
		return env.Print(list, func(out io.Writer) error { return writeDeliveries(out, list) })
	})
	c.Flags().StringVar((*string)(&q.State), "state", "", "only deliveries in this state: pending, succeeded, failed or cancelled")
	c.Flags().StringVar(&q.EventType, "type", "", "only deliveries of this event type")
	c.Flags().IntVar(&q.Limit, "limit", 1000, "the most deliveries to list")
	return c
}

func writeDeliveries(out io.Writer, list []delivery.Delivery) error {
	return cli.Table(out, "CREATED\tPOSITION\tSTATE\tTYPE\tABOUT\tATTEMPTS\tLAST ANSWER\tNEXT ATTEMPT\tID", list, func(d *delivery.Delivery) string {
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s", domain.FormatTime(d.CreatedAt.Time), d.Position, d.State, d.EventType, d.Subject(), len(d.Attempts), lastAnswer(d), timeOr(d.NextAttemptAt), d.ID)
	})
}

// timeOr returns a time, or a dash if there is none.
func timeOr(t delivery.Time) string {
	if t.IsZero() {
		return "-"
	}
	return domain.FormatTime(t.Time)
}

// lastAnswer describes how the last attempt ended.
func lastAnswer(d *delivery.Delivery) string {
	if len(d.Attempts) == 0 {
		return "-"
	}
	a := d.Attempts[len(d.Attempts)-1]
	switch {
	case a.Error != nil:
		return *a.Error
	case a.Status != nil:
		return fmt.Sprintf("answered %d", *a.Status)
	}
	return "-"
}

func webhookResendCommand(env *operate.Env) *cobra.Command {
	return ofWebhook(env, "resend DELIVERY", "Send a finished delivery once more", func(ctx context.Context, store *delivery.Store, id string) error {
		resent, err := store.Resend(ctx, id)
		if err != nil {
			return err
		}
		return env.Print(resent, func(out io.Writer) error { return writeDeliveries(out, []delivery.Delivery{*resent}) })
	})
}

func webhookRetryCommand(env *operate.Env) *cobra.Command {
	return ofWebhook(env, "retry DELIVERY", "Make the next attempt of a pending delivery now", func(ctx context.Context, store *delivery.Store, id string) error {
		retried, err := store.RetryNow(ctx, id)
		if err != nil {
			return err
		}
		return env.Print(retried, func(out io.Writer) error { return writeDeliveries(out, []delivery.Delivery{*retried}) })
	})
}

// readSince reads the value of --since.
func readSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, cli.Usagef("want --since: %s ago", momentForm)
	}
	at, ok := parseMoment(text, now, -1)
	if !ok {
		return time.Time{}, cli.Usagef("--since is %q: want %s ago", text, momentForm)
	}
	return at, nil
}

func webhookRecoverCommand(env *operate.Env) *cobra.Command {
	var (
		since, until string
		dryRun       bool
	)
	c := ofWebhook(env, "recover WEBHOOK", "Send what waits for a webhook now, and again what failed", func(ctx context.Context, store *delivery.Store, id string) error {
		from, err := readSince(since, env.Clock())
		if err != nil {
			return err
		}
		var to *time.Time
		if until != "" {
			at, ok := parseMoment(until, env.Clock(), -1)
			if !ok {
				return cli.Usagef("--until is %q: want %s ago", until, momentForm)
			}
			to = &at
		}
		r, err := store.CountRecovery(ctx, id, from, to)
		if err != nil {
			return err
		}
		if r.Refused != nil {
			return r.Refused
		}
		said := texts.Count(r.Pending, "message waits", "messages wait") + " and " + texts.Count(r.Failed, "has", "have") + " failed"
		if err := env.Print(r, env.Line(said)); err != nil || dryRun {
			return err
		}
		if _, err := store.Recover(ctx, id, from, to); err != nil {
			return err
		}
		if !env.JSON && r.Pending+r.Failed > 0 {
			_, err = fmt.Fprintln(env.Out, "all of them are being sent, the oldest first")
		}
		return err
	})
	c.Flags().StringVar(&since, "since", "", "of events published from then on: a date-time such as 2026-10-01T00:00:00Z, a date, or a time ago such as 48h or 7d (required)")
	c.Flags().StringVar(&until, "until", "", "and before then; like --since (default now)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say how many")
	return c
}

func webhookMissedCommand(env *operate.Env) *cobra.Command {
	var since string
	c := ofWebhook(env, "send-missed WEBHOOK", "Send the events that were published while a webhook was off", func(ctx context.Context, store *delivery.Store, id string) error {
		from, err := readSince(since, env.Clock())
		if err != nil {
			return err
		}
		m, err := store.SendMissed(ctx, id, from)
		if err != nil {
			return err
		}
		said := texts.Count(m.Count, "event is", "events are") + " being sent"
		r, err := store.CountRecovery(ctx, id, from, nil)
		if err != nil {
			return err
		}
		if m.Waiting+r.Failed > 0 {
			said += "; " + texts.Count(m.Waiting, "message waits", "messages wait") + " for another attempt and " + texts.Count(r.Failed, "has", "have") + " failed: webhook recover sends them at once"
		}
		return env.Print(m, env.Line(said))
	})
	c.Flags().StringVar(&since, "since", "", "a date-time such as 2026-10-01T00:00:00Z, a date, or a time ago such as 48h or 7d (required)")
	return c
}
