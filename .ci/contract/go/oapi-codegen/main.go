// Command oapi-codegen runs the scenario of all four clients (.ci/check-contract) with the client that
// oapi-codegen makes.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/oapi-codegen/runtime/types"

	api "ledgerfeed.example/contract/generated/oapicodegen"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: oapi-codegen BASE KEY KEY-WITH-A-LOW-LIMIT")
	}
	ctx := context.Background()
	client, err := connect(os.Args[1], os.Args[2])
	must(err)
	limited, err := connect(os.Args[1], os.Args[3])
	must(err)
	rows, removed := charges(ctx, client)
	invoice := filters(ctx, client)
	refused(ctx, client)
	unchanged(ctx, client, invoice)
	slowedDown(ctx, limited)
	fmt.Printf("oapi-codegen: %d charges and %d removed rows, filters, 400, 304 and 429\n", rows, removed)
}

func connect(base, key string) (*api.ClientWithResponses, error) {
	return api.NewClientWithResponses(base, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
}

// charges follows a list to its end.
func charges(ctx context.Context, client *api.ClientWithResponses) (rows, removed int) {
	params := api.ListChargesParams{Limit: new(100), Include: new(api.Removed)}
	for {
		page, err := client.ListChargesWithResponse(ctx, &params)
		must(err)
		check(page.JSON200 != nil, "a page of charges: %s", page.Body)
		for _, item := range page.JSON200.Data {
			gone, err := item.AsRemovedRow()
			must(err)
			if gone.Removed {
				removed++
				continue
			}
			charge, err := item.AsCharge()
			must(err)
			check(charge.Id != "" && charge.Amount != "", "a charge has an id and an amount")
			rows++
		}
		check(page.JSON200.HasMore == (page.Headers200.Link != nil), "Link is there while there is more")
		if !page.JSON200.HasMore {
			break
		}
		params.Cursor = &page.JSON200.NextCursor
	}
	check(rows > 100 && removed > 0, "%d charges and %d removed rows are more than a page", rows, removed)
	return rows, removed
}

// filters reads invoices by three filters and returns the id of one.
func filters(ctx context.Context, client *api.ClientWithResponses) string {
	from := types.Date{Time: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	paid, err := client.ListInvoicesWithResponse(ctx, &api.ListInvoicesParams{Status: new(api.InvoiceStatusFilterPaid), DateFrom: &from})
	must(err)
	check(paid.JSON200 != nil && len(paid.JSON200.Data) > 0, "there are paid invoices: %s", paid.Body)
	for _, invoice := range paid.JSON200.Data {
		check(invoice.ClientBillingStatus == "paid" && !invoice.PeriodEnd.Before(from.Time), "the filters hold for %s", invoice.Id)
	}
	open, err := client.ListInvoicesWithResponse(ctx, &api.ListInvoicesParams{Open: new(api.OpenFilterTrue)})
	must(err)
	check(open.JSON200 != nil && len(open.JSON200.Data) > 0, "there are open invoices: %s", open.Body)
	for _, invoice := range open.JSON200.Data {
		check(invoice.NetDue != "0.00" && !invoice.Reversed, "%s is open", invoice.Id)
	}
	return paid.JSON200.Data[0].Id
}

func refused(ctx context.Context, client *api.ClientWithResponses) {
	from, to := types.Date{Time: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}, types.Date{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	wrong, err := client.ListInvoicesWithResponse(ctx, &api.ListInvoicesParams{DateFrom: &from, DateTo: &to})
	must(err)
	problem := wrong.ApplicationproblemJSONDefault
	check(wrong.StatusCode() == http.StatusBadRequest && problem != nil, "a wrong range is a 400: %s", wrong.Body)
	check(problem.Code == "invalid_parameter" && len(*problem.Errors) == 2 && (*problem.Errors)[0].Field == "date_from", "both days are named: %s", wrong.Body)
}

func unchanged(ctx context.Context, client *api.ClientWithResponses, id string) {
	first, err := client.GetInvoiceWithResponse(ctx, id, &api.GetInvoiceParams{})
	must(err)
	check(first.JSON200 != nil && first.Headers200.LogPosition > 0, "an invoice: %s", first.Body)
	again, err := client.GetInvoiceWithResponse(ctx, id, &api.GetInvoiceParams{IfNoneMatch: &first.Headers200.ETag})
	must(err)
	check(again.StatusCode() == http.StatusNotModified && again.JSON200 == nil, "the invoice has not changed: %d", again.StatusCode())
}

func slowedDown(ctx context.Context, client *api.ClientWithResponses) {
	for range 5 {
		me, err := client.GetMeWithResponse(ctx, &api.GetMeParams{})
		must(err)
		if problem := me.ApplicationproblemJSONDefault; problem != nil {
			after := me.HeadersDefault.RetryAfter
			check(problem.Status == http.StatusTooManyRequests && problem.Code == "rate_limited" && after != nil && *after > 0, "a 429: %s", me.Body)
			return
		}
		check(me.Headers200.RateLimitLimit == 1, "the limit is that of the key")
	}
	log.Fatal("the key's limit does not hold")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		log.Fatalf(format, args...)
	}
}
