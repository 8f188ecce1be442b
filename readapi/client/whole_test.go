package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// TestWholeLists: the same rows as in pages, exactly as the service wrote them, and a follower goes
// on where the whole list ended.
func TestWholeLists(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	drafts := readapitest.History(t, 7, 1_200)
	s.Grow(drafts[:900]...)
	_, key := s.Key(access.AllPermissions()...)
	api := patient(t, s.Address, key)
	whole := api.WholeTimeEntries(client.TimeEntryParams{Limit: 10, IncludeRemoved: true})
	have := rowsOf(t, whole.Rows(t.Context()))
	same(t, "whole", have, rowsOf(t, api.TimeEntries(t.Context(), client.TimeEntryParams{})))
	if len(whole.Removed()) == 0 {
		t.Error("there are no removed rows, so the test shows nothing")
	}
	s.Grow(drafts[900:]...)
	state := place{whole.Cursor()}
	pages := 0
	for p, err := range api.FollowTimeEntries(t.Context(), client.TimeEntryParams{}, &state, client.FollowOptions{Once: true}) {
		if err != nil {
			t.Fatal(err)
		}
		pages++
		take(have, p)
	}
	same(t, "followed", have, rowsOf(t, api.TimeEntries(t.Context(), client.TimeEntryParams{})))
	if pages == 0 {
		t.Error("nothing was new")
	}
}

// TestWholeListsOverABadNetwork: a list that was broken off is an error, and never a shorter list.
func TestWholeListsOverABadNetwork(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(readapitest.History(t, 7, 400)...)
	_, key := s.Key(access.AllPermissions()...)
	want := rowsOf(t, patient(t, s.Address, key).Invoices(t.Context(), client.InvoiceParams{}))
	_, address := newBadProxy(t, s.Address, 3)
	api := patient(t, address, key)
	good, broken := 0, 0
	for range 60 {
		whole, have := api.WholeInvoices(client.InvoiceParams{}), copyOf{}
		var failed error
		for row, err := range whole.Rows(t.Context()) {
			if failed = err; err == nil {
				have[id(row)] = text(row)
			}
		}
		switch {
		case failed == nil:
			good++
			same(t, "whole", have, want)
		case errors.Is(failed, client.ErrBrokenOff) && whole.Cursor() == "":
			broken++
		default:
			t.Errorf("got %v with the cursor %q", failed, whole.Cursor())
		}
	}
	if good == 0 || broken == 0 {
		t.Errorf("%d good and %d broken lists: the test shows nothing", good, broken)
	}
}

func TestWholeListsWithoutTheirEnd(t *testing.T) {
	t.Parallel()
	const row = `{"id":"in_1","gross_amount":"1.00"}` + "\n"
	const last = `{"has_more":false,"next_cursor":"c"}` + "\n"
	for body, good := range map[string]bool{
		row + last: true, last: true, "": false, row: false, row + last[:20]: false, row + last + row: false, "<html>": false, row + `{"id":7}` + "\n" + last: false,
	} {
		_, address := newAnswers(t, status(http.StatusOK, body))
		var failed error
		for _, err := range patient(t, address, "k").WholeInvoices(client.InvoiceParams{}).Rows(t.Context()) {
			failed = err
		}
		if (failed == nil) != good {
			t.Errorf("%q: %v", body, failed)
		}
	}
	_, address := newAnswers(t, status(http.StatusForbidden, problem(client.CodePermissionMissing)))
	for _, err := range patient(t, address, "k").WholeInvoices(client.InvoiceParams{}).Rows(t.Context()) {
		if client.CodeOf(err) != client.CodePermissionMissing {
			t.Errorf("got %v", err)
		}
	}
}

// TestRaw: an answer comes as the API wrote it, with the position that it shows.
func TestRaw(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(readapitest.History(t, 3, 50)...)
	_, key := s.Key(access.AllPermissions()...)
	raw, err := patient(t, s.Address, key).Raw(t.Context(), "/v1/totals/payments", url.Values{"direction": {"received_from_client"}})
	if err != nil {
		t.Fatal(err)
	}
	if raw.Position == 0 || !strings.Contains(string(raw.Body), fmt.Sprintf(`"log_position":%d`, raw.Position)) {
		t.Errorf("position %d of %s", raw.Position, raw.Body)
	}
}
