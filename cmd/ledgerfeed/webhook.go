package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

func (p *program) webhookCommand() *cobra.Command {
	c := group("webhook", "Create, change, test and look into webhooks",
		p.webhookCreateCommand(), p.webhookListCommand(), p.webhookDeleteCommand(), p.webhookRotateCommand(),
		p.webhookTestCommand(), p.webhookTurnOnCommand(), p.webhookDeliveriesCommand(), p.webhookResendCommand(), p.webhookMissedCommand(), p.webhookListenCommand())
	c.Long = `Create, change, test and look into webhooks.

Some settings decide what these commands do, and have to be the same as for
serve: LEDGERFEED_SECRET_KEY (all of them), LEDGERFEED_WEBHOOK_ALLOW (create),
LEDGERFEED_SECRET_OVERLAP (rotate-secret: when the old secret ends is settled,
and printed, when it is rotated), LEDGERFEED_RETENTION (deliveries, resend,
send-missed) and LEDGERFEED_BRAND (listen).`
	return c
}

// withWebhooks opens the store of webhooks for a command.
func (p *program) withWebhooks(ctx context.Context, work func(*workbench, *delivery.Store) error) error {
	return p.withLog(ctx, func(w *workbench) error {
		store, err := p.webhooks(ctx, w)
		if err != nil {
			return err
		}
		err = work(w, store)
		var (
			address *delivery.AddressError
			events  *delivery.EventsError
			since   *delivery.SinceError
		)
		if errors.As(err, &address) || errors.As(err, &events) || errors.As(err, &since) {
			return &usageError{err}
		}
		return err
	})
}

// ofWebhook is a command about the one thing that its argument names.
func (p *program) ofWebhook(use, short string, work func(ctx context.Context, w *workbench, store *delivery.Store, id string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.withWebhooks(ctx, func(w *workbench, store *delivery.Store) error { return work(ctx, w, store, args[0]) })
		}),
	}
}

// auditWebhook keeps a change of a webhook for the console's audit.
func (p *program) auditWebhook(ctx context.Context, w *workbench, action audit.Action, hook *delivery.Webhook, detail string) error {
	return p.audit(ctx, w, audit.Change{WorkspaceID: hook.WorkspaceID, Action: action, ObjectID: hook.ID, ObjectName: hook.URL, Detail: detail})
}

func (p *program) auditWebhookID(ctx context.Context, w *workbench, store *delivery.Store, action audit.Action, id, detail string) error {
	hook, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	return p.auditWebhook(ctx, w, action, hook, detail)
}

func (p *program) webhookCreateCommand() *cobra.Command {
	var workspace, url string
	var events []string
	c := &cobra.Command{
		Use:   "create",
		Short: "Add a webhook; its secret is shown once",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if workspace == "" || url == "" {
				return usagef("want --workspace and --url")
			}
			return p.withWebhooks(ctx, func(w *workbench, store *delivery.Store) error {
				made, err := store.Create(ctx, workspace, url, events)
				if err != nil {
					return err
				}
				return errors.Join(p.printSecret(made), p.auditWebhook(ctx, w, audit.WebhookCreate, &made.Webhook, strings.Join(made.Events, ", ")))
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace whose events it gets (required)")
	c.Flags().StringVar(&url, "url", "", "where they are sent: an https:// address (required)")
	c.Flags().StringSliceVar(&events, "events", []string{delivery.AllEvents}, "event types, separated by commas, or all: "+strings.Join(domain.PublicTypes(), ", "))
	return c
}

func (p *program) printSecret(w *delivery.WithSecret) error {
	return p.print(w, func(out io.Writer) error {
		fmt.Fprintln(p.errOut, "The signing secret is shown once; the receiver needs it.")
		_, err := fmt.Fprintf(out, "%s\n%s\n", w.ID, w.Secret)
		return err
	})
}

func (p *program) webhookListCommand() *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "list",
		Short: "List a workspace's webhooks",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if workspace == "" {
				return usagef("want --workspace")
			}
			return p.withWebhooks(ctx, func(_ *workbench, store *delivery.Store) error {
				list, err := store.List(ctx, workspace)
				if err != nil {
					return err
				}
				if list == nil {
					list = []delivery.Webhook{}
				}
				return p.print(list, func(out io.Writer) error { return writeWebhooks(out, list) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace (required)")
	return c
}

func writeWebhooks(out io.Writer, list []delivery.Webhook) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tADDRESS\tEVENTS\tFAILING SINCE")
	for i := range list {
		w := &list[i]
		since := "-"
		if !w.FailingSince.IsZero() {
			since = domain.FormatTime(w.FailingSince.Time)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", w.ID, w.State, w.URL, strings.Join(w.Events, ","), since)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range list {
		if list[i].Notice != nil {
			fmt.Fprintf(out, "%s: %s\n", list[i].ID, *list[i].Notice)
		}
	}
	return nil
}

func (p *program) webhookDeleteCommand() *cobra.Command {
	return p.ofWebhook("delete WEBHOOK", "Delete a webhook", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		hook, err := store.Get(ctx, id)
		if err != nil {
			return err
		}
		if err := store.Delete(ctx, id); err != nil {
			return err
		}
		if err := p.auditWebhook(ctx, w, audit.WebhookDelete, hook, ""); err != nil {
			return err
		}
		return p.print(map[string]any{"id": id, "deleted": true}, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, "deleted", id)
			return err
		})
	})
}

func (p *program) webhookRotateCommand() *cobra.Command {
	return p.ofWebhook("rotate-secret WEBHOOK", "Give a webhook a new secret; the old one signs beside it for a while", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		hook, err := store.RotateSecret(ctx, id)
		if err != nil {
			return err
		}
		if !hook.OldSecretUntil.IsZero() {
			fmt.Fprintf(p.errOut, "The old secret signs beside the new one until %s.\n", domain.FormatTime(hook.OldSecretUntil.Time))
		}
		return errors.Join(p.printSecret(hook), p.auditWebhook(ctx, w, audit.WebhookRotateSecret, &hook.Webhook, ""))
	})
}

func (p *program) webhookTestCommand() *cobra.Command {
	return p.ofWebhook("test WEBHOOK", "Send a test.ping to a webhook", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		event, err := store.Test(ctx, id)
		if err != nil {
			return err
		}
		if err := p.auditWebhookID(ctx, w, store, audit.WebhookTest, id, event); err != nil {
			return err
		}
		return p.print(map[string]string{"event_id": event, "delivery_id": event + "_" + id}, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, event)
			return err
		})
	})
}

func (p *program) webhookTurnOnCommand() *cobra.Command {
	return p.ofWebhook("turn-on WEBHOOK", "Turn a webhook back on", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		hook, err := store.TurnOn(ctx, id)
		if err != nil {
			return err
		}
		if err := p.auditWebhook(ctx, w, audit.WebhookTurnOn, hook, ""); err != nil {
			return err
		}
		return p.print(hook, func(out io.Writer) error { return writeWebhooks(out, []delivery.Webhook{*hook}) })
	})
}

func (p *program) webhookDeliveriesCommand() *cobra.Command {
	var q delivery.Query
	c := p.ofWebhook("deliveries WEBHOOK", "List a webhook's recent deliveries, newest first", func(ctx context.Context, _ *workbench, store *delivery.Store, id string) error {
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
		return p.print(list, func(out io.Writer) error { return writeDeliveries(out, list) })
	})
	c.Flags().StringVar((*string)(&q.State), "state", "", "only pending, succeeded, failed or cancelled ones")
	c.Flags().StringVar(&q.EventType, "type", "", "only those of this event type")
	c.Flags().IntVar(&q.Limit, "limit", 1000, "at most so many")
	return c
}

func writeDeliveries(out io.Writer, list []delivery.Delivery) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CREATED\tSTATE\tTYPE\tATTEMPTS\tLAST ANSWER\tID")
	for i := range list {
		d := &list[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", domain.FormatTime(d.CreatedAt.Time), d.State, d.EventType, len(d.Attempts), lastAnswer(d), d.ID)
	}
	return t.Flush()
}

// lastAnswer tells in words how the last attempt ended.
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

func (p *program) webhookResendCommand() *cobra.Command {
	return p.ofWebhook("resend DELIVERY", "Send a finished delivery once more", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		d, err := store.Resend(ctx, id)
		if err != nil {
			return err
		}
		if full, err := store.Delivery(ctx, id); err == nil {
			if err := p.auditWebhookID(ctx, w, store, audit.DeliveryResend, full.WebhookID, id); err != nil {
				return err
			}
		}
		return p.print(d, func(out io.Writer) error { return writeDeliveries(out, []delivery.Delivery{*d}) })
	})
}

func (p *program) webhookMissedCommand() *cobra.Command {
	var since string
	c := p.ofWebhook("send-missed WEBHOOK", "Send the events that a webhook missed since a time", func(ctx context.Context, w *workbench, store *delivery.Store, id string) error {
		from, err := parsePast(since, p.clock())
		if err != nil {
			return usagef("--since: %w", err)
		}
		m, err := store.SendMissed(ctx, id, from)
		if err != nil {
			return err
		}
		if err := p.auditWebhookID(ctx, w, store, audit.WebhookSendMissed, id, fmt.Sprintf("%d events since %s", m.Count, domain.FormatTime(from))); err != nil {
			return err
		}
		return p.print(m, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%d events are on their way\n", m.Count)
			return err
		})
	})
	c.Flags().StringVar(&since, "since", "", "a date-time such as 2026-10-01T00:00:00Z, a date, or a time ago such as 48h or 7d (required)")
	return c
}

// parsePast reads a moment in the past.
func parsePast(s string, now time.Time) (time.Time, error) {
	ahead, err := parseMoment(s, now)
	switch {
	case s == "":
		return time.Time{}, errors.New("is missing: want a date-time such as 2026-10-01T00:00:00Z, a date, or a time ago such as 48h")
	case err != nil:
		return time.Time{}, err
	}
	if ahead.After(now) && !strings.ContainsAny(s, "T:") && strings.Count(s, "-") == 0 {
		return now.Add(-ahead.Sub(now)), nil // a length of time
	}
	return ahead, nil
}
