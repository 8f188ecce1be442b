package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestHistoryIsNotNews: history that is brought in from elsewhere is not sent, each
// webhook counts what it would have got, and what is new comes after it. The count
// stays right when the processes change and when cursors are given back.
func TestHistoryIsNotNews(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Retention: 48 * time.Hour})
	all, some := testkit.NewReceiver(t, nil), testkit.NewReceiver(t, nil)
	everything := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: all.URL, Events: []string{"all"}}))(t)
	charges := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: some.URL, Events: []string{"charge.deleted"}}))(t)
	b.history("invoice.reversed", 700, 49*time.Hour)
	b.history("charge.deleted", 40, 48*time.Hour+time.Minute)
	b.history("charge.deleted", 3, 47*time.Hour)
	b.project(workspace)
	_, stop := b.dispatcher(func(c *dispatch.Config) { c.Idle = 10 * time.Millisecond })
	all.Wait(t, 3)
	some.Wait(t, 3)
	b.expired(everything.ID, 740)
	b.expired(charges.ID, 40)
	stop()
	b.clock.Advance(2 * time.Hour) // what was news is history now; nobody delivers meanwhile
	b.history("charge.deleted", 2, 0)
	b.dispatcher()
	all.Wait(t, 5)
	some.Wait(t, 5)
	b.history("invoice.reversed", 1, 0)
	b.project(workspace)
	all.Wait(t, 6)
	b.expired(everything.ID, 740)
	b.expired(charges.ID, 40)
	if got := len(all.All()); got != 6 {
		t.Errorf("%d messages arrived, want 6", got)
	}
}

// TestMissedHistoryIsNotNews: events that were still news when "Send missed" was
// pressed and are not when their turn comes.
func TestMissedHistoryIsNotNews(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Retention: 48 * time.Hour})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.history("charge.deleted", 4, time.Hour) // from before the webhook: never missed
	b.exec(`UPDATE webhook SET state = 'off'`)
	b.clock.Advance(48 * time.Hour)
	b.history("charge.deleted", 5, 47*time.Hour)
	b.history("charge.deleted", 2, time.Hour)
	testkit.Must(b.store.TurnOn(t.Context(), w.ID))(t)
	missed := testkit.Must(b.store.SendMissed(t.Context(), w.ID, b.clock.Now().Add(-47*time.Hour-time.Minute)))(t)
	if missed.Count != 7 {
		t.Fatalf("%d events were missed", missed.Count)
	}
	b.clock.Advance(2 * time.Hour)
	b.dispatcher()
	rc.Wait(t, 2)
	b.expired(w.ID, 5)
}

// history appends events that were published some time ago, and makes them visible.
func (b *bench) history(typ string, n int, age time.Duration) {
	b.t.Helper()
	data := map[string]string{"invoice.reversed": `{"invoice_id":"inv_1"}`, "charge.deleted": `{"charge_id":"ch_1"}`}[typ]
	var drafts []domain.Draft
	for range n {
		d := testkit.Must(domain.NewDraft(workspace, typ, []byte(data)))(b.t)
		d.CreatedAt = b.clock.Now().Add(-age)
		drafts = append(drafts, d)
	}
	testkit.Must(b.log.Append(b.t.Context(), drafts...))(b.t)
	b.project(workspace)
}

// expired waits until a webhook has counted so many events.
func (b *bench) expired(webhookID string, want int64) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		w, err := b.store.Get(b.t.Context(), webhookID)
		if err != nil {
			return err
		}
		if w.ExpiredEvents != want {
			return fmt.Errorf("%s counted %d events, want %d", webhookID, w.ExpiredEvents, want)
		}
		return nil
	})
}
