package readapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// askedKeys calls asked each time that a key is looked for, with how often it was; an error
// is the answer.
type askedKeys struct {
	readapi.Authenticator

	n     atomic.Int64
	asked atomic.Pointer[func(ctx context.Context, n int64) error]
}

func (k *askedKeys) Authenticate(ctx context.Context, text string) (*access.Key, error) {
	if asked := k.asked.Load(); asked != nil {
		if err := (*asked)(ctx, k.n.Add(1)); err != nil {
			return nil, err
		}
	}
	return k.Authenticator.Authenticate(ctx, text)
}

// from has asked called from now on.
func (k *askedKeys) from(asked func(n int64) error) {
	k.each(func(_ context.Context, n int64) error { return asked(n) })
}

// each is from with the context in which the key is looked for.
func (k *askedKeys) each(asked func(ctx context.Context, n int64) error) {
	k.n.Store(0)
	k.asked.Store(&asked)
}

// TestARevokedKeyGetsNoMoreOfAList: the key is looked at before the header, before each
// chunk and before the end, so nothing goes out after it was revoked.
func TestARevokedKeyGetsNoMoreOfAList(t *testing.T) {
	t.Parallel()
	var keys askedKeys
	s := newStand(t, func(c *readapi.Config) { keys.Authenticator, c.Keys = c.Keys, &keys })
	s.append(objects("acme")...)
	s.project("acme", 0)
	s.fat("large", 20)
	small, large := s.key("acme", allPermissions()...), s.key("large", allPermissions()...)
	for _, c := range []struct {
		what      string
		key       string
		valid     int64 // how often the key is found before it is revoked; once before the request is looked at
		status    int
		most      int // bytes of rows
		endsWhole bool
	}{
		{"before the header", small, 1, 401, 0, true},
		{"before the rows", small, 2, 200, 0, false},
		{"never", small, 3, 200, 10_000, true},
		{"before the second chunk", large, 3, 200, 80_000, false},
	} {
		keys.from(func(n int64) error {
			if n > c.valid {
				return &access.RefusedError{Reason: access.ReasonRevoked}
			}
			return nil
		})
		r, err := s.beginWhole(t.Context(), "/v1/contractors", c.key, "Accept", csvForm)
		if err != nil {
			s.until(func() bool { return len(s.requests.all()) > 0 })
			t.Fatalf("revoked %s: %v; recorded as %+v", c.what, err, s.requests.all())
		}
		body, err := io.ReadAll(r.body)
		if r.status != c.status || (err == nil) != c.endsWhole || r.status == http.StatusOK && len(body) > c.most || bytes.Contains(body, []byte("co_")) != (c.most > 0) {
			t.Errorf("revoked %s: %d, %d bytes, %v: %.300s", c.what, r.status, len(body), err, body)
		}
		s.until(func() bool { return len(s.requests.all()) > 0 })
		if record := s.requests.take()[0]; c.what != "never" && record.Status != http.StatusUnauthorized {
			t.Errorf("revoked %s: recorded as %+v", c.what, record)
		}
	}
}
