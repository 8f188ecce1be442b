package delivery_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// TestTheGoClientVerifies checks our deliveries with the client that we give to customers, in both
// forms of headers and while a secret is rotated, and has its receiver take them.
func TestTheGoClientVerifies(t *testing.T) {
	t.Parallel()
	b := setup(t, policy.Settings{})
	rc := testkit.NewReceiver(t, nil)
	w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: rc.URL, Events: []string{"all"}, Standard: true}))(t)
	b.dispatcher()
	b.append("invoice.reversed", 2)
	rc.Wait(t, 2)
	rotated := testkit.Must(b.store.RotateSecret(t.Context(), w.ID))(t)
	b.append("time_entry.approved", 2)
	for i, r := range rc.Wait(t, 4) {
		standard, own := r.Header.Clone(), r.Header.Clone()
		standard.Del("SERVICE-Signature")
		own.Del("webhook-signature")
		var ofNew error
		if i < 2 {
			ofNew = client.ErrBadSignature
		}
		for _, header := range []http.Header{own, standard} {
			for _, c := range []struct {
				body   string
				secret string
				at     time.Time
				want   error
			}{
				{r.Body, w.Secret, r.At, nil},
				{r.Body, rotated.Secret, r.At, ofNew},
				{r.Body + " ", w.Secret, r.At, client.ErrBadSignature},
				{strings.Replace(r.Body, "e", "f", 1), w.Secret, r.At, client.ErrBadSignature},
				{r.Body, w.Secret, r.At.Add(302 * time.Second), client.ErrTimestamp},
			} {
				if err := client.Verify(header, []byte(c.body), []string{c.secret}, c.at); !errors.Is(err, c.want) {
					t.Errorf("%v of %q: %v, want %v", header, c.body, err, c.want)
				}
			}
		}
		var got *client.Delivery
		h := testkit.Must(client.NewWebhook(client.WebhookConfig{
			Secrets: []string{w.Secret}, Now: func() time.Time { return r.At },
			Handle: func(_ context.Context, d *client.Delivery) error { got = d; return nil },
		}))(t)
		request, answer := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(r.Body)), httptest.NewRecorder()
		request.Header = r.Header
		h.ServeHTTP(answer, request)
		if answer.Code != http.StatusNoContent || got == nil || got.Event.ID != r.Header.Get("SERVICE-Event-Id") ||
			got.ID != r.Header.Get("SERVICE-Delivery-Id") || strconv.FormatInt(got.Position, 10) != r.Header.Get("SERVICE-Log-Position") || got.Position == 0 {
			t.Errorf("the receiver answered %d and took %+v of %v", answer.Code, got, r.Header)
		}
	}
}
