package delivery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestCreateChecksAndLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	ctx := t.Context()
	var address *attempt.AddressError
	if _, err := b.store.Create(ctx, workspace, delivery.Definition{URL: "http://example.com", Events: []string{"all"}}); !errors.As(err, &address) {
		t.Errorf("http: %v", err)
	}
	var events *delivery.EventsError
	for _, choice := range [][]string{nil, {"invoice.recorded"}, {"all", "invoice.paid"}, {""}} {
		if _, err := b.store.Create(ctx, workspace, delivery.Definition{URL: "https://example.com", Events: choice}); !errors.As(err, &events) {
			t.Errorf("events %q: %v", choice, err)
		}
	}
	var unknown *domain.UnknownWorkspaceError
	if _, err := b.store.Create(ctx, "nobody", delivery.Definition{URL: "https://example.com", Events: []string{"all"}}); !errors.As(err, &unknown) {
		t.Errorf("unknown workspace: %v", err)
	}
	made := make(chan error, 12)
	for range cap(made) {
		go func() {
			_, err := b.store.Create(ctx, workspace, delivery.Definition{URL: "https://example.com/x", Events: []string{"payout.paid", "invoice.paid"}})
			made <- err
		}()
	}
	ok := 0
	for range cap(made) {
		switch err := <-made; {
		case err == nil:
			ok++
		case !errors.Is(err, delivery.ErrTooManyWebhooks):
			t.Error(err)
		}
	}
	list := testkit.Must(b.store.List(ctx, workspace))(t)
	if ok != delivery.MaxWebhooks || len(list) != delivery.MaxWebhooks {
		t.Errorf("%d made, %d listed, want 5", ok, len(list))
	}
	if !slices.Equal(list[0].Events, []string{"invoice.paid", "payout.paid"}) {
		t.Errorf("events %q, want the order of the catalogue", list[0].Events)
	}
	if _, err := b.store.List(ctx, "nobody"); !errors.As(err, &unknown) {
		t.Errorf("list of an unknown workspace: %v", err)
	}
}

func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	ctx := t.Context()
	const id = "wh_00000000-0000-7000-8000-000000000000"
	var webhook *delivery.UnknownWebhookError
	var del *delivery.UnknownDeliveryError
	for name, err := range map[string]error{
		"get":          second(b.store.Get(ctx, id)),
		"edit":         second(b.store.Edit(ctx, id, delivery.Change{Events: []string{"all"}})),
		"delete":       b.store.Delete(ctx, id),
		"rotate":       second(b.store.RotateSecret(ctx, id)),
		"test":         second(b.store.Test(ctx, id)),
		"turn on":      second(b.store.TurnOn(ctx, id)),
		"deliveries":   second(b.store.Deliveries(ctx, id, delivery.Query{})),
		"send missed":  second(b.store.SendMissed(ctx, id, time.Now())),
		"count missed": second(b.store.CountMissed(ctx, id, time.Now())),
	} {
		if !errors.As(err, &webhook) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"evt_1_" + id, "", "x", "_" + id, id} {
		if _, err := b.store.Delivery(ctx, bad); !errors.As(err, &del) {
			t.Errorf("delivery %q: %v", bad, err)
		}
		if _, err := b.store.Resend(ctx, bad); !errors.As(err, &del) {
			t.Errorf("resend %q: %v", bad, err)
		}
		if _, err := b.store.RetryNow(ctx, bad); !errors.As(err, &del) {
			t.Errorf("retry now %q: %v", bad, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	if !strings.HasPrefix(w.Secret, "whsec_") || len(w.Secret) < 38 {
		t.Errorf("secret %q", w.Secret)
	}
	var row string
	if err := b.pool.QueryRow(t.Context(), `SELECT row_to_json(w)::text || encode(secret, 'escape') FROM webhook w`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(row, w.Secret[6:]) {
		t.Error("the database holds the secret as it is")
	}
	shown := testkit.Must(json.Marshal(testkit.Must(b.store.List(t.Context(), workspace))(t)))(t)
	if strings.Contains(string(shown), "whsec_") {
		t.Error("the list shows the secret")
	}
}

func TestRotationSignsWithBoth(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	rc.Wait(t, 1)
	rotatedAt := b.clock.Now()
	rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	b.append("invoice.reversed", 1)
	got := rc.Wait(t, 2)[1]
	header := got.Header.Get("Service-Signature")
	if strings.Count(header, "v1=") != 2 {
		t.Fatalf("during the overlap: %q", header)
	}
	for _, s := range []string{w.Secret, rotated.Secret} {
		if err := attempt.Verify(time.Now(), header, []byte(got.Body), s); err != nil {
			t.Error(err)
		}
	}
	if until := rotated.OldSecretUntil.Sub(rotatedAt); until < 24*time.Hour-time.Second || until > 24*time.Hour+time.Minute {
		t.Errorf("the old secret signs for %v", until)
	}
	// The end of the overlap is stored with the webhook, so it does not depend on the
	// settings of the process that delivers.
	b.clock.Advance(rotated.OldSecretUntil.Sub(b.clock.Now()))
	b.append("invoice.reversed", 1)
	got = rc.Wait(t, 3)[2]
	header = got.Header.Get("Service-Signature")
	if strings.Count(header, "v1=") != 1 || attempt.Verify(b.clock.Now(), header, []byte(got.Body), rotated.Secret) != nil {
		t.Errorf("after the overlap: %q", header)
	}
}

// TestEveryRotationKeepsItsPromise: each secret signs until the end that its rotation named, the
// newest first, also in the headers of Standard Webhooks. A rotation that would need a sixth
// secret is refused and changes nothing; it is taken once the first has ended.
func TestEveryRotationKeepsItsPromise(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}, Standard: true}))(t)
	secrets := []string{w.Secret} // newest first
	sent := 0
	renewing := func(c *dispatch.Config) { c.Renew = soon }
	_, stop := b.dispatcher(renewing)
	signedWith := func(want ...string) {
		t.Helper()
		b.append("invoice.reversed", 1)
		sent++
		got := rc.Wait(t, sent)[sent-1]
		at := time.Unix(testkit.Must(strconv.ParseInt(got.Header.Get(attempt.StandardTimestampHeader), 10, 64))(t), 0)
		standard := map[string][]string{} // the names of these headers are not canonical
		attempt.SetStandard(standard, at, got.Header.Get("Service-Event-Id"), []byte(got.Body), want...)
		if header, signed := got.Header.Get("Service-Signature"), attempt.Sign(at, []byte(got.Body), want...); header != signed {
			t.Errorf("signed %q, want %q", header, signed)
		}
		if header, signed := got.Header.Get(attempt.StandardSignatureHeader), standard[attempt.StandardSignatureHeader][0]; header != signed {
			t.Errorf("webhook-signature is %q, want %q", header, signed)
		}
	}
	signedWith(secrets...)
	var ends []time.Time // of the secrets before the newest
	for range delivery.MaxSecrets - 1 {
		rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
		secrets = append([]string{rotated.Secret}, secrets...)
		ends = append([]time.Time{rotated.OldSecretsUntil[0].Time}, ends...)
		for i, until := range rotated.OldSecretsUntil {
			if !until.Equal(ends[i]) {
				t.Errorf("a further rotation moved an end from %v to %v", ends[i], until)
			}
		}
		if !rotated.OldSecretUntil.Equal(ends[0]) {
			t.Errorf("the last of them ends at %v, want %v", rotated.OldSecretUntil, ends[0])
		}
		signedWith(secrets...)
		b.clock.Advance(time.Hour)
	}
	var refused *delivery.SecretsError
	if _, err := b.store.RotateSecret(t.Context(), w.ID); !errors.As(err, &refused) || !refused.Until.Equal(ends[len(ends)-1]) {
		t.Fatalf("a sixth secret: %v", err)
	}
	got := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
	if got.MayRotate() || !strings.Contains(refused.Error(), "5 secrets") {
		t.Errorf("%v; it may be rotated: %v", refused, got.MayRotate())
	}
	signedWith(secrets...)
	stop() // a process that starts reads the same
	b.dispatcher(renewing)
	signedWith(secrets...)
	b.clock.Advance(ends[len(ends)-1].Sub(b.clock.Now()))
	signedWith(secrets[:4]...)
	rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	signedWith(append([]string{rotated.Secret}, secrets[:4]...)...)
}

func TestPingGoesToOneAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc, other := testkit.NewReceiver(t, nil), testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: other.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	id := testkit.Must(b.store.Test(t.Context(), w.ID))(t)
	b.project(workspace)
	got := rc.Wait(t, 1)
	if got[0].Header.Get("Service-Event-Id") != id || !strings.Contains(got[0].Body, `"type":"test.ping"`) {
		t.Errorf("got %+v", got[0])
	}
	b.append("invoice.reversed", 1)
	if got := other.Wait(t, 1); got[0].Header.Get("Service-Event-Id") == id {
		t.Error("the ping went to another webhook, too")
	}
}

func TestChoiceAndAddressCanChange(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc, next := testkit.NewReceiver(t, nil), testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"invoice.reversed"}}))(t)
	b.dispatcher()
	b.append("time_entry.approved", 3)
	b.append("invoice.reversed", 1)
	rc.Wait(t, 1)
	testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{URL: &next.URL, Events: []string{"time_entry.approved"}}))(t)
	b.append("invoice.reversed", 3)
	id := b.append("time_entry.approved", 1)[0]
	if got := next.Wait(t, 1); len(got) != 1 || got[0].Header.Get("Service-Event-Id") != id {
		t.Errorf("got %d messages, first %s", len(got), got[0].Header.Get("Service-Event-Id"))
	}
	if n := len(rc.All()); n != 1 {
		t.Errorf("the old address got %d messages, want 1", n)
	}
	if err := b.store.Delete(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	other := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.append("time_entry.approved", 1)
	rc.Wait(t, 2)
	if n := len(next.All()); n != 1 {
		t.Errorf("a deleted webhook got %d messages, want 1", n)
	}
	b.states(other.ID, policy.Succeeded)
}

// A webhook's name and description are bounded, can be changed and taken away, and name
// it in the audit trail; the query of its address is shown nowhere.
func TestNameAndDescription(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	const address = "https://hooks.example.com/in?token=hunter2"
	everything := []string{delivery.AllEvents}
	for field, d := range map[string]delivery.Definition{
		"name":        {URL: address, Events: everything, Name: strings.Repeat("ü", delivery.MaxName+1)},
		"description": {URL: address, Events: everything, Description: "two\nlines"},
	} {
		var text *delivery.TextError
		if _, err := b.store.Create(t.Context(), workspace, d); !errors.As(err, &text) || text.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var (
		address2 *attempt.AddressError
		events   *delivery.EventsError
		text     *delivery.TextError
	)
	_, err := b.store.Create(t.Context(), workspace, delivery.Definition{URL: "http://x", Name: " x"})
	if !errors.As(err, &address2) || !errors.As(err, &events) || !errors.As(err, &text) {
		t.Errorf("three faults are reported as %v", err)
	}
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{
		URL: address, Events: everything, Name: strings.Repeat("ü", delivery.MaxName), Description: "Run by Dana",
	}))(t)
	if w.Name != strings.Repeat("ü", delivery.MaxName) || w.Description != "Run by Dana" {
		t.Errorf("made %+v", w.Webhook)
	}
	name, nothing := "Payroll", ""
	after := testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{Name: &name}))(t)
	if after.Name != name || after.Description != "Run by Dana" || after.URL != address || after.Label() != "Payroll (hooks.example.com/in?…)" {
		t.Errorf("renamed to %+v", after)
	}
	after = testkit.Must(b.store.Edit(t.Context(), w.ID, delivery.Change{Name: &nothing, Description: &nothing, Events: everything}))(t)
	if after.Name != "" || after.Description != "" || after.Label() != "hooks.example.com/in?…" {
		t.Errorf("without a name: %+v", after)
	}
	var audit string
	if err := b.pool.QueryRow(t.Context(), `SELECT string_agg(object_name || ' ' || detail, E'\n') FROM console_audit WHERE object_id = $1`, w.ID).Scan(&audit); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(audit, "hunter2") || !strings.Contains(audit, `name before: "Payroll"`) || !strings.Contains(audit, "Payroll (hooks.example.com/in?…)") {
		t.Errorf("the audit trail says\n%s", audit)
	}
}

// TestEditAudit: the audit trail has the event types of an edit that changes them, first,
// because statements look for them there, and of no other edit.
func TestEditAudit(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://hooks.example.com/in", Events: []string{"invoice.paid", "invoice.issued"}}))(t)
	address, name, text := "https://hooks.example.com/other", "Payroll; events: all", "x; events: all"
	for i, c := range []struct {
		change delivery.Change
		want   string
	}{
		{delivery.Change{URL: &address, Events: []string{"invoice.issued", "invoice.paid"}, Name: &w.Name}, "address before: https://hooks.example.com/in"},
		{delivery.Change{Name: &name, Description: &text, Events: []string{"all"}}, `events: all; name before: ""; description: "x; events: all"`},
		{delivery.Change{Name: &w.Name, Events: []string{"all"}}, `name before: "Payroll; events: all"`},
		{delivery.Change{Events: []string{"invoice.paid"}}, "events: invoice.paid"},
	} {
		testkit.Must(b.store.Edit(t.Context(), w.ID, c.change))(t)
		var got string
		if err := b.pool.QueryRow(t.Context(), `SELECT detail FROM console_audit WHERE object_id = $1 AND action = 'webhook.edit' ORDER BY at DESC, audit_id DESC LIMIT 1`, w.ID).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("edit %d: the audit trail says %q, want %q", i, got, c.want)
		}
	}
}

func TestSendAgainMakesOneAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{}})
	var healthy atomic.Bool
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "thanks")
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	d := b.states(w.ID, policy.Failed)[0]
	for n := 2; n <= 3; n++ {
		if n == 3 {
			healthy.Store(true)
		}
		if again := testkit.Must(b.store.Resend(t.Context(), d.ID))(t); again.State == policy.Failed && len(again.Attempts) == n-1 {
			t.Errorf("after send again: %+v", again)
		}
		testkit.Eventually(t, func() error {
			full, err := b.store.Delivery(t.Context(), d.ID)
			if err == nil && (len(full.Attempts) != n || full.State == policy.Pending) {
				err = fmt.Errorf("%d attempts, %s", len(full.Attempts), full.State)
			}
			return err
		})
	}
	full := testkit.Must(b.store.Delivery(t.Context(), d.ID))(t)
	if full.State != policy.Succeeded || *full.Attempts[2].Answer != "thanks" || full.Body != rc.All()[0].Body || full.Attempts[2].Error != nil {
		t.Errorf("delivery %+v", full)
	}
	for _, r := range rc.Wait(t, 3) {
		if r.Header.Get("Service-Delivery-Id") != d.ID {
			t.Errorf("delivery id %q, want %q", r.Header.Get("Service-Delivery-Id"), d.ID)
		}
	}
	var left int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_waiting`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows wait, %v", left, err)
	}
}

func TestPendingIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour}})
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 1)
	d := b.states(w.ID, policy.Pending)[0]
	if wait := time.Until(d.NextAttemptAt.Time); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("next attempt in %v, want an hour", wait)
	}
	if _, err := b.store.Resend(t.Context(), d.ID); !errors.Is(err, delivery.ErrNotFinished) {
		t.Errorf("send again: %v", err)
	}
}

// TestDeliveriesSayWhatTheyAreAbout: the number of an invoice where the event has one,
// otherwise what it is and its id.
func TestDeliveriesSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("time_entry.approved", 1)
	issued := testkit.Must(domain.NewDraft(workspace, "invoice.issued", []byte(`{"invoice_id":"in_7","invoice_number":"INV-0042","amount":"1.00"}`)))(t)
	testkit.Must(b.log.Append(t.Context(), issued))(t)
	b.project(workspace)
	b.recorded([]string{workspace}, 2)
	var got []string
	for _, d := range testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{}))(t).Deliveries {
		got = append(got, d.EventType+" "+d.Subject())
		one := testkit.Must(b.store.Delivery(t.Context(), d.ID))(t)
		if one.Subject() != d.Subject() {
			t.Errorf("alone it is about %s, in the list about %s", one.Subject(), d.Subject())
		}
	}
	slices.Sort(got)
	if want := []string{"invoice.issued INV-0042", "time_entry.approved time entry te_1"}; !slices.Equal(got, want) {
		t.Errorf("they are about %q, want %q", got, want)
	}
}

func TestDeliveriesPageAndFilter(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%5 == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 30)
	b.append("time_entry.approved", 20)
	rc.Wait(t, 50)
	all := func(q delivery.Query) (list []delivery.Delivery) {
		for {
			p := testkit.Must(b.store.Deliveries(t.Context(), w.ID, q))(t)
			list = append(list, p.Deliveries...)
			if q.Cursor = p.Next; q.Cursor == "" {
				return list
			}
		}
	}
	testkit.Eventually(t, func() error {
		if n := len(all(delivery.Query{Limit: 7})); n != 50 {
			return fmt.Errorf("%d deliveries", n)
		}
		return nil
	})
	list := all(delivery.Query{Limit: 7})
	if !slices.IsSortedFunc(list, func(a, b delivery.Delivery) int { return b.CreatedAt.Compare(a.CreatedAt.Time) }) {
		t.Error("not the newest first")
	}
	if n := len(all(delivery.Query{Limit: 3, State: policy.Failed})); n != 10 {
		t.Errorf("%d failed, want 10", n)
	}
	if n := len(all(delivery.Query{Limit: 3, State: policy.Succeeded, EventType: "time_entry.approved"})); n < 10 || n > 20 {
		t.Errorf("%d succeeded time entries", n)
	}
	if n := len(all(delivery.Query{Limit: 9, EventType: "time_entry.approved"})); n != 20 {
		t.Errorf("%d of the type, want 20", n)
	}
	if _, err := b.store.Deliveries(t.Context(), w.ID, delivery.Query{Cursor: "x"}); !errors.Is(err, delivery.ErrCursor) {
		t.Errorf("a wrong cursor: %v", err)
	}
	testkit.Eventually(t, func() error {
		got := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
		if got.Last24Hours[attempt.OutcomeSuccess] != 40 || got.Last24Hours[attempt.OutcomeAnswered] != 10 {
			return fmt.Errorf("counts %v", got.Last24Hours)
		}
		return nil
	})
}
