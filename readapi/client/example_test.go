package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

func ExampleNew() {
	api, err := client.New(client.Config{
		URL: "https://api.example.com", Key: os.Getenv("API_KEY"),
		RetryFor:     5 * time.Minute, // how long one call goes on trying
		CacheEntries: 1000,            // do not transfer again what has not changed
		UserAgent:    "acme-reports/1.0",
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = api
}

func ExampleClient_Invoices() {
	ctx, api := context.Background(), connect()
	due := new(big.Rat)
	for invoice, err := range api.Invoices(ctx, client.InvoiceParams{Open: new(true), DateFrom: "2026-10-01", DateTo: "2026-10-31"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(invoice.Number, invoice.NetDue, invoice.Currency)
		due.Add(due, invoice.NetDue.Rat())
	}
	fmt.Println("in all", due.FloatString(2))
	// Output:
	// 2026-001 420.00 EUR
	// 2026-002 79.90 EUR
	// in all 499.90
}

func ExampleClient_InvoicePages() {
	ctx, api := context.Background(), connect()
	for page, err := range api.InvoicePages(ctx, client.InvoiceParams{Limit: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(page.Rows), "row at position", page.Position, "and more:", page.More)
	}
	// Output:
	// 1 row at position 10 and more: true
	// 1 row at position 10 and more: false
}

func ExampleClient_FollowTimeEntries() {
	ctx, api := context.Background(), connect()
	dir, remove := exampleDir()
	defer remove()

	hours := map[string]client.Decimal{} // a copy of the list
	state := client.FileState(filepath.Join(dir, "time-entries.cursor"))
	// Without Once, the loop waits for more, for as long as the program runs.
	options := client.FollowOptions{StartAgain: true, Once: true}
	for page, err := range api.FollowTimeEntries(ctx, client.TimeEntryParams{}, state, options) {
		if err != nil {
			log.Print(err)
			return
		}
		if page.Restarted != nil {
			clear(hours) // what the service has lost comes in no page
		}
		for _, row := range page.Rows {
			hours[row.ID] = row.Hours
		}
		for _, gone := range page.Removed {
			delete(hours, gone.ID)
		}
	} // after each page, the state is saved
	fmt.Println(hours)
	// Output:
	// map[te_1:7.5]
}

func ExampleLoadOnly() {
	ctx, api := context.Background(), connect()
	var database struct { // stands for your own
		cursor string
		events []string
	}
	state := client.LoadOnly(func(context.Context) (string, error) { return database.cursor, nil })
	for page, err := range api.FollowEvents(ctx, client.EventParams{}, state, client.FollowOptions{Once: true}) {
		if err != nil {
			log.Fatal(err)
		}
		// In one transaction: either both are saved, or neither is.
		for _, event := range page.Rows {
			database.events = append(database.events, string(event.Type))
		}
		database.cursor = page.Cursor
	}
	fmt.Println(database.events)
	// Output:
	// [invoice.issued invoice.sent invoice.issued invoice.sent time_entry.deleted]
}

func ExampleClient_WholeInvoices() {
	ctx, api := context.Background(), connect()
	whole := api.WholeInvoices(client.InvoiceParams{})
	n := 0
	for _, err := range whole.Rows(ctx) {
		if errors.Is(err, client.ErrBrokenOff) {
			log.Fatal("rows are missing: read the list again")
		} else if err != nil {
			log.Fatal(err)
		}
		n++
	}
	fmt.Println(n, "invoices, to go on from a cursor:", whole.Cursor() != "")
	// Output:
	// 2 invoices, to go on from a cursor: true
}

func ExampleClient_InvoiceTotals() {
	ctx, api := context.Background(), connect()
	totals, err := api.InvoiceTotals(ctx, client.InvoiceParams{Open: new(true)}, client.GroupByClient)
	if err != nil {
		log.Fatal(err)
	}
	for _, sum := range totals.Data {
		fmt.Println(*sum.Client.Name, sum.Count, sum.NetDue, sum.Currency)
	}
	// Output:
	// Blue Door Ltd 2 499.90 EUR
}

func ExampleError() {
	ctx, api := context.Background(), connect()
	_, err := api.Invoice(ctx, "in_404")
	switch client.CodeOf(err) {
	case client.CodeNotFound:
		fmt.Println("there is no such invoice")
	case client.CodePermissionMissing, client.CodeUnauthorized:
		log.Fatal("ask for another key: ", err)
	default:
		if refused, ok := errors.AsType[*client.Error](err); ok {
			log.Fatal(refused.Status, " ", refused.RequestID, refused.Parameters)
		}
	}
	// Output:
	// there is no such invoice
}

func ExampleClient_AtLeast() {
	ctx, api := context.Background(), connect()
	position := int64(7) // Delivery.Position of a webhook's message
	invoice, err := api.AtLeast(position).Invoice(ctx, "in_1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(invoice.ClientBillingStatus)
	// Output:
	// sent
}

func ExampleDecimal() {
	a, err := client.ParseDecimal("7.50")
	if err != nil {
		log.Fatal(err)
	}
	b, err := client.ParseDecimal("7.5")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a, b, a.Cmp(b))
	// Output:
	// 7.50 7.5 0
}

func ExampleNewWebhook() {
	handler, err := client.NewWebhook(client.WebhookConfig{
		Secrets: []string{secret}, // while you rotate it, the new one and the old one
		Now:     exampleNow,       // leave it out
		Handle: func(_ context.Context, d *client.Delivery) error {
			fmt.Println(d.Event.Type, d.Event.Data.ObjectID, "at position", d.Position)
			return nil // after an error, the service sends the message again
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hook", handler)

	header, body := message(exampleNow(), "evt_1", secret)
	for range 2 { // the second time it is not handled again
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		r.Header = header
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// invoice.paid in_1 at position 42
}

func ExampleVerify() {
	header, body := message(exampleNow(), "evt_1", secret)
	fmt.Println(client.Verify(header, []byte(body), []string{secret}, exampleNow()))
	fmt.Println(client.Verify(header, []byte(body+" "), []string{secret}, exampleNow()))
	// If the service has a word of its own in place of SERVICE: client.Brand("ACME").Verify(…)

	// Output:
	// <nil>
	// no signature of the message matches its body and a secret
}
