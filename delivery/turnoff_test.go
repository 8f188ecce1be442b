package delivery_test

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/mail"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// postOffice is an SMTP server that keeps the mails it accepts. It refuses the first
// ones with a temporary error; refuse is how many.
type postOffice struct {
	mu     sync.Mutex
	refuse int
	mails  []string
	to     []string
	url    string
}

func newPostOffice(t *testing.T, refuse int) *postOffice {
	t.Helper()
	p := &postOffice{refuse: refuse}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &letterBox{office: p}, nil }))
	s.Domain = "localhost"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	p.url = "smtp://" + l.Addr().String()
	return p
}

type letterBox struct {
	office *postOffice
	to     string
}

func (b *letterBox) Mail(string, *smtp.MailOptions) error { return nil }
func (b *letterBox) Rcpt(to string, _ *smtp.RcptOptions) error {
	b.to = to
	return nil
}
func (b *letterBox) Reset()        {}
func (b *letterBox) Logout() error { return nil }
func (b *letterBox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	b.office.mu.Lock()
	defer b.office.mu.Unlock()
	if b.office.refuse > 0 {
		b.office.refuse--
		return &smtp.SMTPError{Code: 451, Message: "come back later"}
	}
	b.office.mails = append(b.office.mails, string(text))
	b.office.to = append(b.office.to, b.to)
	return nil
}

// subjects returns the subjects of the mails accepted so far.
func (p *postOffice) subjects(t *testing.T) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.mails {
		m, err := netmail.ReadMessage(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func TestTurnsOffTellsAndSendsMissed(t *testing.T) {
	t.Parallel()
	office := newPostOffice(t, 1)
	b := setup(t, policy.Settings{})
	b.notify("finance@example.com")
	var healthy atomic.Bool
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "out of order")
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL + "/hook?token=hunter2", Events: []string{"all"}, Name: "Payroll"}))(t)
	log := &testkit.Buffer{}
	b.dispatcher(func(c *dispatch.Config) {
		c.Mail, c.Logger = mail.Settings{URL: office.url, From: "billing@example.com"}, log.Logger()
		c.Renew = soon
	})
	began := b.clock.Now().Truncate(time.Millisecond) // as precise as the log
	got, sent := b.failUntilOff(w.ID, 2*time.Hour)
	if lasted := got.TurnedOffAt.Sub(got.FailingSince.Time); lasted < 72*time.Hour || lasted > 75*time.Hour {
		t.Errorf("turned off after %v", lasted)
	}
	for _, want := range []string{"answered 500", readableTime(got.FailingSince.Time), readableTime(got.TurnedOffAt.Time)} {
		if got.Notice == nil || !strings.Contains(*got.Notice, want) {
			t.Errorf("the notice does not say %q: %v", want, *got.Notice)
		}
	}
	page := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{Limit: 500}))(t)
	for _, d := range page.Deliveries {
		want := policy.Cancelled
		if len(d.Attempts) == 8 { // over before
			want = policy.Failed
		}
		if d.State != want {
			t.Errorf("delivery %s with %d attempts is %s, want %s", d.ID, len(d.Attempts), d.State, want)
		}
	}
	testkit.Eventually(t, func() error {
		s := office.subjects(t)
		failing, off := 0, 0
		for _, subject := range s {
			failing += strings.Count(subject, "failing")
			off += strings.Count(subject, "turned off")
		}
		named := "Webhook turned off: Payroll (" + strings.TrimPrefix(rc.URL, "https://") + "/hook?…)"
		if failing != 2 || off != 1 || !slices.Contains(s, named) {
			return fmt.Errorf("mails %q", s)
		}
		return nil
	})
	office.mu.Lock()
	var last string
	for _, m := range office.mails {
		if strings.Contains(m, "turned off") {
			last = m
		}
	}
	for _, want := range []string{"Payroll", rc.URL + "/hook?", "answered 500", "out of order"} {
		if !strings.Contains(last, want) {
			t.Errorf("the mail does not say %q:\n%s", want, last)
		}
	}
	if all := strings.Join(office.mails, ""); strings.Contains(all, "hunter2") {
		t.Errorf("a mail has the query of the address:\n%s", all)
	}
	if office.to[0] != "finance@example.com" {
		t.Errorf("mail to %q", office.to[0])
	}
	office.mu.Unlock()
	// The log names the host alone: the address holds a token.
	if text := log.String(); !strings.Contains(text, "turned off a webhook") || !strings.Contains(text, "host="+strings.TrimPrefix(rc.URL, "https://")) || strings.Contains(text, "hunter2") {
		t.Errorf("logged:\n%s", text)
	}

	// While it is off, nothing is sent.
	b.append("invoice.reversed", 5)
	sent += 5
	if _, err := b.store.Test(t.Context(), w.ID); !errors.Is(err, delivery.ErrOff) {
		t.Errorf("test: %v", err)
	}
	if _, err := b.store.SendMissed(t.Context(), w.ID, began); !errors.Is(err, delivery.ErrOff) {
		t.Errorf("send missed: %v", err)
	}
	// Besides these five, the last ones before may have been published too late for an attempt.
	missed := testkit.Must(b.store.CountMissed(t.Context(), w.ID, began))(t).Count
	if missed < 5 || missed > 10 {
		t.Errorf("%d missed, want 5 or a few more", missed)
	}
	if _, err := b.store.Recover(t.Context(), w.ID, began, nil); !errors.Is(err, delivery.ErrOff) {
		t.Errorf("recover: %v", err)
	}
	before := len(rc.All())
	healthy.Store(true)
	if on := testkit.Must(b.store.TurnOn(t.Context(), w.ID))(t); !on.On() || !on.FailingSince.IsZero() || on.Notice != nil {
		t.Errorf("turned on: %+v", on)
	}
	b.append("invoice.reversed", 1)
	rc.Wait(t, before+1)
	m := testkit.Must(b.store.SendMissed(t.Context(), w.ID, began))(t)
	if m.Count != missed {
		t.Errorf("%d missed, want %d", m.Count, missed)
	}
	if r := testkit.Must(b.store.Recover(t.Context(), w.ID, began, nil))(t); r.Failed != int64(sent)-missed || r.Pending != 0 {
		t.Errorf("recovered %+v, want %d", r, int64(sent)-missed)
	}
	all := rc.Wait(t, before+1+sent)[before:]
	seen := map[string]int{}
	for _, r := range all {
		seen[r.Header.Get("Service-Event-Id")]++
	}
	if len(seen) != sent+1 {
		t.Errorf("%d events, want %d", len(seen), sent+1)
	}
	want := make([]policy.State, sent+1)
	for i := range want {
		want[i] = policy.Succeeded
	}
	b.states(w.ID, want...)
	testkit.Eventually(t, func() error {
		if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); got.SendingMissed {
			return errors.New("still sending missed events")
		}
		return nil
	})
	if m := testkit.Must(b.store.SendMissed(t.Context(), w.ID, began))(t); m.Count != 0 {
		t.Errorf("%d missed after all were sent", m.Count)
	}
	if n := len(rc.All()); n != before+1+sent {
		t.Errorf("%d messages, want %d", n, before+1+sent)
	}
}

// TestMissedBeforeItWasThere: what was published before a webhook was added was not missed, whichever time is
// asked for.
func TestMissedBeforeItWasThere(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	since := b.clock.Now().Add(-time.Minute)
	b.append("invoice.reversed", 1)
	b.clock.Advance(time.Second)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: "https://example.com", Events: []string{"all"}}))(t)
	b.exec(`UPDATE webhook SET state = 'off'`)
	for published := range int64(2) {
		if m := testkit.Must(b.store.CountMissed(t.Context(), w.ID, since))(t); m.Count != published {
			t.Errorf("%d missed, want %d", m.Count, published)
		}
		b.clock.Advance(time.Second)
		b.append("invoice.reversed", 1)
	}
}

// TestGoneTurnsOff: a receiver that answers 410 to two deliveries in a row gets nothing more, and
// people are told why. One delivery that it answers so does not turn the webhook off.
func TestGoneTurnsOff(t *testing.T) {
	t.Parallel()
	office := newPostOffice(t, 0)
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Millisecond, time.Hour}})
	b.notify("finance@example.com")
	rc := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	log := &testkit.Buffer{}
	b.dispatcher(func(c *dispatch.Config) {
		c.Mail, c.Logger = mail.Settings{URL: office.url, From: "billing@example.com"}, log.Logger()
	})
	b.append("invoice.reversed", 1)
	b.awaitAttempts(2)
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.On() {
		t.Fatalf("turned off by one delivery: %s", *got.Notice)
	}
	b.append("invoice.reversed", 1)
	b.states(w.ID, policy.Cancelled, policy.Cancelled)
	got := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
	if got.On() || *got.TurnedOffReason != "gone" || !strings.Contains(*got.Notice, "answered 410 (Gone) to two deliveries in a row") {
		t.Errorf("the webhook is %+v, notice %q", got, *got.Notice)
	}
	testkit.Eventually(t, func() error {
		office.mu.Lock()
		defer office.mu.Unlock()
		if len(office.mails) != 1 || !strings.Contains(office.mails[0], "turned off") || !strings.Contains(office.mails[0], "answered 410 (Gone) to two deliveries") || !strings.Contains(office.mails[0], "it wants no more messages") {
			return fmt.Errorf("mails %q", office.mails)
		}
		return nil
	})
	if text := log.String(); !strings.Contains(text, "turned off a webhook, because its receiver answered 410 (Gone) to two deliveries in a row") {
		t.Errorf("logged:\n%s", text)
	}
	var detail string
	if err := b.pool.QueryRow(t.Context(), `SELECT detail FROM console_audit WHERE action = 'webhook.turn_off'`).Scan(&detail); err != nil || detail != "the receiver answered 410 (Gone) to two deliveries in a row" {
		t.Errorf("the audit trail says %q, %v", detail, err)
	}
	if on := testkit.Must(b.store.TurnOn(t.Context(), w.ID))(t); !on.On() || on.Notice != nil || on.TurnedOffReason != nil {
		t.Errorf("turned on: %+v", on)
	}
	b.append("invoice.reversed", 1) // the 410s of before do not count
	testkit.Eventually(t, func() error {
		list := testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{}))(t).Deliveries
		if len(list) != 3 || len(list[0].Attempts) != 2 {
			return fmt.Errorf("deliveries %+v", list)
		}
		return nil
	})
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.On() {
		t.Errorf("turned off again by one delivery: %s", *got.Notice)
	}
}

// TestAQuietWebhookIsTurnedOff: one that is dead is turned off by its second event, also when
// that comes a week later. By whom it is delivered does not matter.
func TestAQuietWebhookIsTurnedOff(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Hour}})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: refuses(t).URL, Events: []string{"all"}}))(t)
	_, stop := b.dispatcher()
	b.append("invoice.reversed", 1)
	b.awaitAttempts(1)
	stop()
	b.clock.Advance(7 * 24 * time.Hour)
	b.dispatcher()
	b.states(w.ID, policy.Failed) // a lone event does not turn it off
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); !got.On() {
		t.Fatalf("turned off by a lone event: %s", *got.Notice)
	}
	b.append("invoice.reversed", 1)
	b.states(w.ID, policy.Cancelled, policy.Failed)
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); got.On() || *got.TurnedOffReason != "failing" {
		t.Errorf("the webhook is %+v", got)
	}
}

// TestRetryAfterPutsOff: the receiver's Retry-After of a 429 or 503 puts the next attempt off, and
// a person's retry goes before it.
func TestRetryAfterPutsOff(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{Schedule: policy.Schedule{time.Minute, time.Minute}})
	rc := testkit.NewReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	b.dispatcher()
	at := b.clock.Now()
	b.append("invoice.reversed", 1)
	d := b.states(w.ID, policy.Pending)[0]
	if wait := d.NextAttemptAt.Sub(at); wait < 2*time.Hour || wait > 2*time.Hour+time.Minute {
		t.Errorf("the next attempt is in %v, want 2 hours", wait)
	}
	testkit.Must(b.store.RetryNow(t.Context(), d.ID))(t)
	b.states(w.ID, policy.Succeeded)
}

// soon is when a dispatcher renews its lease in tests that set its clock: until then the lease
// is over for it.
const soon = 50 * time.Millisecond

// failUntilOff advances the clock and appends events until the webhook is turned
// off, because all of them fail. It returns how many there were.
func (b *bench) failUntilOff(webhookID string, every time.Duration) (w *delivery.Webhook, events int) {
	b.t.Helper()
	for events = 1; ; events++ {
		b.append("invoice.reversed", 1)
		testkit.Eventually(b.t, func() error {
			w = testkit.Must(b.store.Get(b.t.Context(), webhookID))(b.t)
			var n int
			err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM webhook_delivery WHERE webhook_id = $1`, webhookID).Scan(&n)
			if err == nil && w.On() && n < events {
				err = fmt.Errorf("%d of %d events were attempted", n, events)
			}
			return err
		})
		if !w.On() {
			return w, events
		}
		if events > 200 {
			b.t.Fatalf("the webhook stays on: %+v", w)
		}
		b.clock.Advance(every)
	}
}

// TestSendAgainWhileOff sends a cancelled delivery again to a webhook that is off, as
// a user does after repairing the receiver. Nothing else is sent, and it stays off.
func TestSendAgainWhileOff(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	rc.Answer(http.StatusInternalServerError)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}}))(t)
	registry := prometheus.NewRegistry()
	b.dispatcher(func(c *dispatch.Config) { c.Metrics, c.Renew = registry, soon })
	b.failUntilOff(w.ID, 30*time.Hour)
	want := make([]policy.State, len(testkit.Must(b.store.Deliveries(t.Context(), w.ID, delivery.Query{}))(t).Deliveries))
	for i := range want {
		want[i] = policy.Cancelled
	}
	newest := b.states(w.ID, want...)[0]
	b.append("invoice.reversed", 3) // not for a webhook that is off
	again := func(state policy.State) delivery.Delivery {
		t.Helper()
		before := rc.Count()
		testkit.Must(b.store.Resend(t.Context(), newest.ID))(t)
		want[0] = state
		d := b.states(w.ID, want...)[0]
		if n := rc.Count(); n != before+1 || rc.All()[before].Header.Get("Service-Event-Id") != newest.EventID {
			t.Errorf("%d messages, want one of %s", n-before, newest.EventID)
		}
		return d
	}
	first := again(policy.Failed)
	rc.Answer(http.StatusOK)
	if d := again(policy.Succeeded); len(d.Attempts) != len(newest.Attempts)+2 || len(first.Attempts) != len(newest.Attempts)+1 {
		t.Errorf("attempts: %d, then %d, then %d", len(newest.Attempts), len(first.Attempts), len(d.Attempts))
	}
	if got := testkit.Must(b.store.Get(t.Context(), w.ID))(t); got.On() {
		t.Error("sending again has turned it on")
	}
	testkit.Eventually(t, func() error {
		if n := gauge(t, registry, "ledgerfeed_webhooks_held"); n != 0 {
			return fmt.Errorf("%v webhooks are held, and none is on", n)
		}
		return nil
	})

	// It is still sent when the webhook is turned on before that.
	stopped := testkit.Must(b.store.Get(t.Context(), w.ID))(t)
	if _, err := b.pool.Exec(t.Context(), `UPDATE webhook_cursor SET holder = 'somebody'; INSERT INTO webhook_instance (workspace_id, instance_id, lease_until, of_table) VALUES ('*', 'somebody', now() + interval '1 hour', 'webhook_instance'::regclass)`); err != nil {
		t.Fatal(err)
	}
	testkit.Must(b.store.Resend(t.Context(), newest.ID))(t)
	testkit.Must(b.store.TurnOn(t.Context(), stopped.ID))(t)
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM webhook_instance WHERE instance_id = 'somebody'`); err != nil {
		t.Fatal(err)
	}
	b.states(w.ID, want...)
	if n := len(testkit.Must(b.store.Delivery(t.Context(), newest.ID))(t).Attempts); n != len(newest.Attempts)+3 {
		t.Errorf("%d attempts, want %d", n, len(newest.Attempts)+3)
	}
}

func (b *bench) notify(to string) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), `UPDATE workspace SET notify_email = $1`, to); err != nil {
		b.t.Fatal(err)
	}
}
