package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// copyOf is a customer's copy of a list, by id, as JSON.
type copyOf map[string]string

// id is the id of a row: its field ID, or that of its client.
func id[T any](row *T) string {
	v := reflect.ValueOf(row).Elem()
	if f := v.FieldByName("ID"); f.IsValid() {
		return f.String()
	}
	return v.FieldByName("Client").FieldByName("ID").String()
}

func text[T any](row *T) string {
	b, err := json.Marshal(row)
	if err != nil {
		panic(err) // what was read as JSON can be written
	}
	return string(b)
}

// take takes a page over.
func take[T any](c copyOf, p *client.Page[T]) {
	if p.Restarted != nil {
		clear(c)
	}
	for i := range p.Rows {
		c[id(&p.Rows[i])] = text(&p.Rows[i])
	}
	for _, gone := range p.Removed {
		delete(c, gone.ID)
	}
}

// rowsOf reads a list at once.
func rowsOf[T any](t testing.TB, list iter.Seq2[*T, error]) copyOf {
	t.Helper()
	c := copyOf{}
	for row, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		c[id(row)] = text(row)
	}
	return c
}

// same fails the test if a copy is not what the list has.
func same(t testing.TB, what string, got, want copyOf) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: the list has no rows, so the test shows nothing", what)
	}
	if maps.Equal(got, want) {
		return
	}
	for key, row := range want {
		if got[key] != row {
			t.Errorf("%s: %d rows, want %d; of %s the copy has\n%s\nwant\n%s", what, len(got), len(want), key, got[key], row)
			return
		}
	}
	t.Errorf("%s: the copy has %d rows, want %d", what, len(got), len(want))
}

// place is a State in memory.
type place struct{ cursor string }

func (p *place) Load(context.Context) (string, error)            { return p.cursor, nil }
func (p *place) Save(_ context.Context, cursor string) (_ error) { p.cursor = cursor; return }

// followed is a list that a test follows.
type followed struct {
	name string
	run  func(ctx context.Context, api *client.Client, o client.FollowOptions) error
	want func(api *client.Client) copyOf
	have copyOf
}

type lister[T, P any] struct {
	follow func(*client.Client, context.Context, P, client.State, client.FollowOptions) iter.Seq2[*client.Page[T], error]
	rows   func(*client.Client, context.Context, P) iter.Seq2[*T, error]
}

func newFollowed[T, P any](t testing.TB, name string, l lister[T, P]) *followed {
	f := &followed{name: name, have: copyOf{}}
	state := client.FileState(filepath.Join(t.TempDir(), "cursor"))
	var params P
	f.run = func(ctx context.Context, api *client.Client, o client.FollowOptions) error {
		for p, err := range l.follow(api, ctx, params, state, o) {
			if err != nil {
				return err
			}
			take(f.have, p)
		}
		return nil
	}
	f.want = func(api *client.Client) copyOf { return rowsOf(t, l.rows(api, t.Context(), params)) }
	return f
}

func allFollowed(t testing.TB) []*followed {
	return []*followed{
		newFollowed(t, "invoices", lister[client.Invoice, client.InvoiceParams]{(*client.Client).FollowInvoices, (*client.Client).Invoices}),
		newFollowed(t, "charges", lister[client.Charge, client.ChargeParams]{(*client.Client).FollowCharges, (*client.Client).Charges}),
		newFollowed(t, "time entries", lister[client.TimeEntry, client.TimeEntryParams]{(*client.Client).FollowTimeEntries, (*client.Client).TimeEntries}),
		newFollowed(t, "payments", lister[client.Payment, client.PaymentParams]{(*client.Client).FollowPayments, (*client.Client).Payments}),
		newFollowed(t, "clients", lister[client.ClientRecord, client.PartyParams]{(*client.Client).FollowClients, (*client.Client).Clients}),
		newFollowed(t, "contractors", lister[client.Contractor, client.PartyParams]{(*client.Client).FollowContractors, (*client.Client).Contractors}),
		newFollowed(t, "credits", lister[client.Credit, client.CreditParams]{(*client.Client).FollowCredits, (*client.Client).Credits}),
		newFollowed(t, "credit history", lister[client.CreditMovement, client.CreditHistoryParams]{(*client.Client).FollowCreditHistory, (*client.Client).CreditHistory}),
		newFollowed(t, "events", lister[client.Event, client.EventParams]{(*client.Client).FollowEvents, (*client.Client).Events}),
	}
}

// TestFollowersOverABadNetwork follows every list while entries are appended, through a proxy that
// fails about half of the requests. Each copy ends as what the list has, also if the follower is
// stopped and goes on from its file.
func TestFollowersOverABadNetwork(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	drafts := readapitest.History(t, 6, testkit.Scale(1_500, 6_000))
	s.Grow(drafts[:300]...)
	_, key := s.Key(access.AllPermissions()...)
	proxy, address := newBadProxy(t, s.Address, 5)
	api := patient(t, address, key)
	lists := allFollowed(t)
	ctx, stop := context.WithCancel(t.Context())
	var running errgroup.Group
	for _, f := range lists {
		running.Go(func() error { return f.run(ctx, api, client.FollowOptions{}) })
	}
	for part := range slices.Chunk(drafts[300:], 150) {
		s.Grow(part...)
	}
	stop()
	if err := running.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	direct := patient(t, s.Address, key)
	for _, f := range lists {
		if err := f.run(t.Context(), api, client.FollowOptions{Once: true}); err != nil {
			t.Fatal(err)
		}
		same(t, f.name, f.have, f.want(direct))
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	for _, fault := range []string{"429", "500", "503", "cut before", "cut within", "slow"} {
		if proxy.faults[fault] == 0 {
			t.Errorf("the proxy had no fault %q: %v", fault, proxy.faults)
		}
	}
}

// TestFollowersAndKeys: a rotated key and one that sees less go on. With one that sees more, the
// follower ends, or begins again and says so.
func TestFollowersAndKeys(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	drafts := readapitest.History(t, 3, 900)
	s.Grow(drafts[:600]...)
	keyID, plain := s.Key(readapitest.WithoutPay()...)
	_, all := s.Key(access.AllPermissions()...)
	var state place
	have := copyOf{}
	once := func(key string, startAgain bool) (restarted []*client.Error, err error) {
		for p, err := range patient(t, s.Address, key).FollowCharges(t.Context(), client.ChargeParams{Limit: 20}, &state, client.FollowOptions{Once: true, StartAgain: startAgain}) {
			if err != nil {
				return restarted, err
			}
			take(have, p)
			if p.Restarted != nil {
				restarted = append(restarted, p.Restarted)
			}
		}
		return restarted, nil
	}
	goesOn := func(key string) {
		t.Helper()
		if restarted, err := once(key, false); err != nil || restarted != nil {
			t.Fatal(restarted, err)
		}
	}
	goesOn(plain)
	_, secret, err := s.Keys.Rotate(t.Context(), "acme", keyID, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Grow(drafts[600:]...)
	goesOn(secret.Reveal())
	same(t, "a rotated key", have, rowsOf(t, patient(t, s.Address, secret.Reveal()).Charges(t.Context(), client.ChargeParams{})))

	if _, err := once(all, false); client.CodeOf(err) != client.CodeCursorPermissions {
		t.Fatalf("a key that sees more: %v", err)
	}
	restarted, err := once(all, true)
	if err != nil || len(restarted) != 1 || restarted[0].Code != client.CodeCursorPermissions {
		t.Fatalf("begins again: %v, %v", restarted, err)
	}
	want := rowsOf(t, patient(t, s.Address, all).Charges(t.Context(), client.ChargeParams{}))
	same(t, "a key that sees more", have, want)
	goesOn(secret.Reveal())
	same(t, "a key that sees less", have, want)
}

// TestFollowersOfALogThatWentBack: after a restored backup, in which other entries took the places
// of lost ones, the follower begins again and its copy has nothing of what was lost.
func TestFollowersOfALogThatWentBack(t *testing.T) {
	t.Parallel()
	lost, restored := readapitest.New(t), readapitest.New(t)
	lost.Grow(readapitest.History(t, 3, 500)...)
	restored.Grow(readapitest.History(t, 4, 500)...)
	_, before := lost.Key(access.AllPermissions()...)
	_, after := restored.Key(access.AllPermissions()...)
	for _, f := range allFollowed(t) {
		if err := f.run(t.Context(), patient(t, lost.Address, before), client.FollowOptions{Once: true}); err != nil {
			t.Fatal(err)
		}
		api := patient(t, restored.Address, after)
		if err := f.run(t.Context(), api, client.FollowOptions{Once: true}); client.CodeOf(err) != client.CodeCursorReset {
			t.Fatalf("%s of a log that went back: %v", f.name, err)
		}
		if err := f.run(t.Context(), api, client.FollowOptions{Once: true, StartAgain: true}); err != nil {
			t.Fatal(err)
		}
		same(t, f.name, f.have, f.want(api))
	}
}

// TestFollowersOfEventsThatAreGone: the follower was away for longer than events are kept.
func TestFollowersOfEventsThatAreGone(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	event := func(n int) {
		s.Grow(readapitest.Line(t, `"type":"invoice.paid","data":{"invoice_id":"in_%d","period":"2026-10"}`, n))
	}
	event(1)
	event(2)
	_, key := s.Key(access.AllPermissions()...)
	var state place
	api := patient(t, s.Address, key)
	for p, err := range api.EventPages(t.Context(), client.EventParams{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		state.cursor = p.Cursor
		break
	}
	s.Clock.Advance(31 * 24 * time.Hour)
	var restarted *client.Error
	once := func(startAgain bool) error {
		for p, err := range api.FollowEvents(t.Context(), client.EventParams{Limit: 1}, &state, client.FollowOptions{Once: true, StartAgain: startAgain}) {
			if err != nil {
				return err
			}
			restarted = p.Restarted
		}
		return nil
	}
	if err := once(false); client.CodeOf(err) != client.CodeEventsMissed {
		t.Fatalf("events are gone: %v", err)
	}
	if err := once(true); err != nil || restarted == nil || restarted.Code != client.CodeEventsMissed {
		t.Fatalf("begins again: %v, %v", restarted, err)
	}
}

// TestAPageIsSavedAfterItsBody: who leaves the loop gets the page again.
func TestAPageIsSavedAfterItsBody(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(readapitest.History(t, 3, 300)...)
	_, key := s.Key(access.AllPermissions()...)
	api := patient(t, s.Address, key)
	var state place
	params := client.TimeEntryParams{Limit: 10}
	read := func(leaveAt int) (cursors []string) {
		for p, err := range api.FollowTimeEntries(t.Context(), params, &state, client.FollowOptions{Once: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if cursors = append(cursors, p.Cursor); len(cursors) == leaveAt {
				break
			}
		}
		return cursors
	}
	first := read(2)
	if state.cursor != first[0] {
		t.Fatalf("saved %q, want the cursor of the first page", state.cursor)
	}
	again := read(0)
	if again[0] != first[1] || state.cursor != again[len(again)-1] {
		t.Errorf("the page that was not taken over does not come again")
	}

	broken := errors.New("the disk is full")
	failing := failingState{broken}
	for _, err := range api.FollowTimeEntries(t.Context(), params, failing, client.FollowOptions{}) {
		if err != nil && !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	own := client.LoadOnly(func(context.Context) (string, error) { return first[0], nil })
	for p, err := range api.FollowTimeEntries(t.Context(), params, own, client.FollowOptions{}) {
		if err != nil || p.Cursor != first[1] {
			t.Errorf("goes on from a place of the caller: %v", err)
		}
		break
	}
}

type failingState struct{ err error }

func (failingState) Load(context.Context) (string, error) { return "", nil }
func (s failingState) Save(context.Context, string) error { return s.err }
