package client_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

// description is what the tests need of the API's description.
type description struct {
	Paths map[string]struct {
		Get struct {
			Parameters []struct {
				Name, In string
			}
		}
	}
	Components struct {
		Schemas struct {
			Problem struct {
				Properties struct {
					Code struct {
						Enum []string `json:"x-extensible-enum"`
					}
				}
			}
		}
	}
}

func theDescription(t testing.TB) (d description) {
	t.Helper()
	text := testkit.Must(openapi.Document(openapi.Info{BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com"}))(t)
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEveryFilterIsThere: the parameters of each list are those of the API, except cursor, which
// the methods set.
func TestEveryFilterIsThere(t *testing.T) {
	t.Parallel()
	d := theDescription(t)
	for path, params := range map[string]any{
		"/v1/invoices": client.InvoiceParams{}, "/v1/charges": client.ChargeParams{}, "/v1/time-entries": client.TimeEntryParams{},
		"/v1/payments": client.PaymentParams{}, "/v1/clients": client.PartyParams{}, "/v1/contractors": client.PartyParams{},
		"/v1/credits": client.CreditParams{}, "/v1/credit-history": client.CreditHistoryParams{}, "/v1/events": client.EventParams{},
	} {
		want := map[string]bool{}
		for _, p := range d.Paths[path].Get.Parameters {
			if p.In == "query" && p.Name != "cursor" {
				want[p.Name] = true
			}
		}
		have := map[string]bool{}
		for f := range reflect.TypeOf(params).Fields() {
			have[f.Tag.Get("query")] = true
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s has %v, want %v", path, slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestEveryCodeIsThere: so that programs need no text of their own.
func TestEveryCodeIsThere(t *testing.T) {
	t.Parallel()
	codes := theDescription(t).Components.Schemas.Problem.Properties.Code.Enum
	have := []client.Code{
		client.CodeInvalidParameter, client.CodeCursorInvalid, client.CodeCursorReset, client.CodeCursorPermissions, client.CodeEventsMissed,
		client.CodeKeyInURL, client.CodeUnauthorized, client.CodePermissionMissing, client.CodeNotFound, client.CodeMethodNotAllowed,
		client.CodeRateLimited, client.CodeAddressSlowedDown, client.CodePositionNotReached, client.CodeHeadersTooLarge, client.CodeBusy,
		client.CodeUnavailable, client.CodeInternal,
	}
	if len(have) != len(codes) {
		t.Errorf("%d codes, want %d", len(have), len(codes))
	}
	for _, code := range have {
		if !slices.Contains(codes, string(code)) {
			t.Errorf("the API has no code %s", code)
		}
	}
}

// TestParametersAsTheyAreSent: each kind of field, and nothing for a field without a value.
func TestParametersAsTheyAreSent(t *testing.T) {
	t.Parallel()
	s, address := newAnswers(t, status(http.StatusOK, noRows))
	api := patient(t, address, "k")
	since := time.Date(2026, 10, 2, 11, 15, 0, 120_999_999, time.FixedZone("CEST", 2*60*60))
	for _, err := range api.InvoicePages(t.Context(), client.InvoiceParams{
		Limit: 7, UpdatedSince: since, IncludeRemoved: true, DateFrom: client.DateOf(since), Status: client.InvoiceStatusSent, Open: new(false),
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.InvoiceTotals(t.Context(), client.InvoiceParams{Period: "2026-10"}, client.GroupByClient, client.GroupByMonth); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"date_from=2026-10-02&include=removed&limit=7&open=false&status=sent&updated_since=2026-10-02T09%3A15%3A00.120Z", "group_by=client%2Cmonth&period=2026-10",
	} {
		if got := s.requests[i].URL.RawQuery; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
}

// TestNoFloats: amounts and hours are exact in all types.
func TestNoFloats(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	decimals := 0
	var look func(at string, of reflect.Type)
	look = func(at string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Float32, reflect.Float64:
			t.Errorf("%s is a %v", at, of)
		case reflect.Pointer, reflect.Slice:
			look(at, of.Elem())
		case reflect.Struct:
			if of == reflect.TypeFor[client.Decimal]() {
				decimals++
			}
			if seen[of] || !strings.HasSuffix(of.PkgPath(), "/readapi/client") {
				return
			}
			seen[of] = true
			for f := range of.Fields() {
				look(at+"."+f.Name, f.Type)
			}
		default:
		}
	}
	for _, value := range []any{
		client.Invoice{}, client.Charge{}, client.TimeEntry{}, client.Payment{}, client.ClientRecord{}, client.Contractor{}, client.Credit{}, client.CreditMovement{},
		client.Event{}, client.ClientCredit{}, client.InvoiceTotals{}, client.ChargeTotals{}, client.TimeEntryTotals{}, client.PaymentTotals{},
	} {
		look(reflect.TypeOf(value).Name(), reflect.TypeOf(value))
	}
	if decimals < 40 {
		t.Errorf("only %d decimals: the types of amounts are others", decimals)
	}
}
