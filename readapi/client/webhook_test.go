package client_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oldSecret = "whsec_0123456789012345678901234567890123456789"
)

// message is a message as a webhook sends it, with both forms of headers.
func message(at time.Time, id string, secrets ...string) (http.Header, string) {
	body := fmt.Sprintf(`{"id":%q,"type":"invoice.paid","created_at":"2026-10-02T09:15:00.120Z","data":{"object_type":"invoice","object_id":"in_1"}}`, id)
	stamp := fmt.Sprint(at.Unix())
	own, standard := "t="+stamp, ""
	for _, s := range secrets {
		own += ",v1=" + hex.EncodeToString(mac([]byte(s), stamp+"."+body))
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		standard += " v1," + base64.StdEncoding.EncodeToString(mac(key, id+"."+stamp+"."+body))
	}
	header := http.Header{}
	for name, value := range map[string]string{
		"SERVICE-Signature": own, "SERVICE-Event-Id": id, "SERVICE-Delivery-Id": id + "_wh_1", "SERVICE-Log-Position": "42",
		"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": strings.TrimSpace(standard),
	} {
		header.Set(name, value)
	}
	return header, body
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// without is a header without those of one form.
func without(header http.Header, names ...string) http.Header {
	header = header.Clone()
	for _, name := range names {
		header.Del(name)
	}
	return header
}

func own(h http.Header) http.Header {
	return without(h, "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature")
}
func standard(h http.Header) http.Header { return without(h, "SERVICE-Signature") }

// TestVerify: either form, any of the secrets, within 5 minutes, and nothing else.
func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	good, body := message(now, "evt_1", secret)
	rotated, _ := message(now, "evt_1", secret, oldSecret)
	forged, _ := message(now, "evt_1", "") // with an empty key, as anybody can
	for _, form := range []func(http.Header) http.Header{own, standard, http.Header.Clone} {
		header := form(good)
		for _, c := range []struct {
			name    string
			header  http.Header
			body    string
			secrets []string
			at      time.Time
			want    error
		}{
			{"good", header, body, []string{secret}, now, nil},
			{"the oldest", header, body, []string{secret}, now.Add(300 * time.Second), nil},
			{"the newest", header, body, []string{secret}, now.Add(-300 * time.Second), nil},
			{"too old", header, body, []string{secret}, now.Add(301 * time.Second), client.ErrTimestamp},
			{"too new", header, body, []string{secret}, now.Add(-301 * time.Second), client.ErrTimestamp},
			{"another body", header, body + " ", []string{secret}, now, client.ErrBadSignature},
			{"another secret", header, body, []string{oldSecret}, now, client.ErrBadSignature},
			{"no secret", header, body, nil, now, client.ErrBadSignature},
			{"an empty secret", form(forged), body, []string{"", "whsec_", "whsec_%"}, now, client.ErrBadSignature},
			{"two secrets here", header, body, []string{oldSecret, secret}, now, nil},
			{"two secrets there", form(rotated), body, []string{oldSecret}, now, nil},
			{"no header", http.Header{}, body, []string{secret}, now, client.ErrNoSignature},
		} {
			if err := client.Verify(c.header, []byte(c.body), c.secrets, c.at); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	}
	for _, header := range []string{"t=,v1=", "t=abc,v1=zz", "v1=00", "t=1790000000", "t=99999999999999999999,v1=00"} {
		if err := client.Verify(http.Header{"Service-Signature": {header}}, []byte(body), []string{secret}, now); !errors.Is(err, client.ErrNoSignature) {
			t.Errorf("%s: %v", header, err)
		}
	}
	branded := http.Header{"Acme-Signature": good["Service-Signature"]}
	if err := client.Brand("ACME").Verify(branded, []byte(body), []string{secret}, now); err != nil {
		t.Error(err)
	}
	if err := client.Verify(branded, []byte(body), []string{secret}, now); !errors.Is(err, client.ErrNoSignature) {
		t.Errorf("another brand: %v", err)
	}
}

// TestVerifyTheStandardsExample: the example of the libraries of Standard Webhooks.
func TestVerifyTheStandardsExample(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	if err := client.Verify(header, []byte(`{"test": 2432232314}`), []string{secret}, time.Unix(1614265330, 0)); err != nil {
		t.Error(err)
	}
}

// TestWebhook: what the receiver answers, and how often it calls.
func TestWebhook(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	var calls []client.Delivery
	var fails error
	h := testkit.Must(client.NewWebhook(client.WebhookConfig{Secrets: []string{secret}, Now: func() time.Time { return now }, Handle: func(_ context.Context, d *client.Delivery) error {
		calls = append(calls, *d)
		return fails
	}}))(t)
	send := func(method string, header http.Header, body string) int {
		r := httptest.NewRequest(method, "/hook", strings.NewReader(body))
		r.Header = header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	header, body := message(now, "evt_1", secret)
	fails = errors.New("the queue is full")
	for i, c := range []struct{ got, want, calls int }{
		{send(http.MethodGet, header, body), 405, 0},
		{send(http.MethodPost, header, body+" "), 400, 0},
		{send(http.MethodPost, header, strings.Repeat(" ", 2<<20)), 400, 0},
		{send(http.MethodPost, header, body), 500, 1},
	} {
		if c.got != c.want {
			t.Errorf("%d: answered %d, want %d", i, c.got, c.want)
		}
	}
	fails = nil
	if a, b := send(http.MethodPost, header, body), send(http.MethodPost, header, body); a != 204 || b != 204 || len(calls) != 2 {
		t.Errorf("answered %d and %d after %d calls", a, b, len(calls))
	}
	if d := calls[1]; d.ID != "evt_1_wh_1" || d.Position != 42 || d.Event.ID != "evt_1" || d.Event.Type != client.EventTypeInvoicePaid {
		t.Errorf("got %+v", d)
	}
	for _, cfg := range []client.WebhookConfig{{}, {Secrets: []string{secret}}, {Handle: func(context.Context, *client.Delivery) error { return nil }}} {
		if _, err := client.NewWebhook(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// TestWebhookWhileAnEventIsHandled: a second attempt is sent away, because the first one may still
// fail. After a panic the event is new again.
func TestWebhookWhileAnEventIsHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		release := make(chan bool)
		h := testkit.Must(client.NewWebhook(client.WebhookConfig{Secrets: []string{secret}, Handle: func(context.Context, *client.Delivery) error {
			calls.Add(1)
			if <-release {
				panic(http.ErrAbortHandler)
			}
			return nil
		}}))(t)
		send := func() (code int) {
			defer func() { _ = recover() }()
			header, body := message(time.Now(), "evt_1", secret)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", strings.NewReader(body))
			r.Header = header
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		first := make(chan int, 2)
		go func() { first <- send() }()
		synctest.Wait()
		if got := send(); got != 503 {
			t.Errorf("a second attempt got %d", got)
		}
		release <- true
		<-first
		go func() { first <- send() }()
		release <- false
		if got := <-first; got != 204 || calls.Load() != 2 {
			t.Errorf("after the panic: %d after %d calls", got, calls.Load())
		}
	})
}
