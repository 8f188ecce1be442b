package demo

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/demo/lastday"
	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// makeLastDay makes up the last day at the first start, with two more webhooks: one whose
// receiver refuses every connection, and one that was turned off. A demo that has more
// webhooks than its own is left as it is: somebody uses it, or an earlier start was
// interrupted.
func makeLastDay(ctx context.Context, env *cli.Env, deps *cli.Deps, s *saved, keys *access.Store, store *delivery.Store) error {
	if s.LastDay {
		return nil
	}
	list, err := store.List(ctx, workspaceID)
	if err != nil {
		return err
	}
	if len(list) > 1 {
		s.LastDay = true
		return s.save()
	}
	webhooks := lastday.Webhooks{Well: s.Webhook.ID}
	for _, w := range []struct {
		id *string
		delivery.Definition
	}{
		{&webhooks.Failing, delivery.Definition{
			Name: "Payroll", Description: "Fails, to show how that looks: nothing listens at this address.",
			URL: "https://127.0.0.1:1/payroll", Events: []string{"time_entry.approved", "payout.paid", "invoice.issued"},
		}},
		{&webhooks.Off, delivery.Definition{
			Name: "Old automation", Description: "Was turned off, to show how that looks: there is no such name.",
			URL: "https://old-automation.harbour-lane.example/hooks/7f3a", Events: []string{"invoice.paid", "invoice.sent"},
		}},
	} {
		made, err := store.Create(ctx, workspaceID, w.Definition)
		if err != nil {
			return err
		}
		*w.id = made.ID
	}
	var used [2]lastday.Key
	for i, id := range []string{s.Everything.ID, s.WithoutPay.ID} {
		k, err := keys.Get(ctx, workspaceID, id)
		if err != nil {
			return err
		}
		used[i] = lastday.Key{ID: id, Prefix: k.Prefix}
	}
	maker := lastday.Maker{Pool: deps.Pool, Clock: env.Clock, Logger: env.Logger, WorkspaceID: workspaceID}
	if err := maker.Make(ctx, used, webhooks); err != nil {
		return err
	}
	// A change of a user's tells the process that delivers to read the webhook again.
	name := "Payroll"
	if _, err := store.Edit(ctx, webhooks.Failing, delivery.Change{Name: &name}); err != nil {
		return err
	}
	s.LastDay = true
	return s.save()
}
