// Command ogen runs the scenario of all four clients (.ci/check-contract) with the client that ogen
// makes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	api "ledgerfeed.example/contract/generated/ogen"
)

// key is where the client takes its key from.
type key string

func (k key) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{Token: string(k)}, nil
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: ogen BASE KEY KEY-WITH-A-LOW-LIMIT")
	}
	ctx := context.Background()
	client, err := api.NewClient(os.Args[1], key(os.Args[2]))
	must(err)
	limited, err := api.NewClient(os.Args[1], key(os.Args[3]))
	must(err)
	rows, removed := charges(ctx, client)
	invoice := filters(ctx, client)
	refused(ctx, client)
	unchanged(ctx, client, invoice)
	slowedDown(ctx, limited)
	fmt.Printf("ogen: %d charges and %d removed rows, filters, 400, 304 and 429\n", rows, removed)
}

// charges follows a list to its end.
func charges(ctx context.Context, client *api.Client) (rows, removed int) {
	params := api.ListChargesParams{Limit: api.NewOptInt(100), Include: api.NewOptInclude(api.IncludeRemoved)}
	for {
		answer, err := client.ListCharges(ctx, params)
		must(err)
		page, ok := answer.(*api.ChargeListHeaders)
		check(ok, "a page of charges: %T", answer)
		for _, item := range page.Response.Data {
			if item.IsRemovedRow() {
				removed++
				continue
			}
			check(item.Charge.ID != "" && item.Charge.Amount != "", "a charge has an id and an amount")
			rows++
		}
		check(page.Response.HasMore == page.Link.Set, "Link is there while there is more")
		if !page.Response.HasMore {
			break
		}
		params.Cursor = api.NewOptString(page.Response.NextCursor)
	}
	check(rows > 100 && removed > 0, "%d charges and %d removed rows are more than a page", rows, removed)
	return rows, removed
}

// filters reads invoices by three filters and returns the id of one.
func filters(ctx context.Context, client *api.Client) string {
	from := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	paid := invoices(ctx, client, api.ListInvoicesParams{Status: api.NewOptInvoiceStatusFilter(api.InvoiceStatusFilterPaid), DateFrom: api.NewOptDate(from)})
	for _, invoice := range paid {
		check(invoice.ClientBillingStatus == "paid" && !invoice.PeriodEnd.Before(from), "the filters hold for %s", invoice.ID)
	}
	for _, invoice := range invoices(ctx, client, api.ListInvoicesParams{Open: api.NewOptOpenFilter(api.OpenFilterTrue)}) {
		check(invoice.NetDue != "0.00" && !invoice.Reversed, "%s is open", invoice.ID)
	}
	return paid[0].ID
}

func invoices(ctx context.Context, client *api.Client, params api.ListInvoicesParams) []api.Invoice {
	answer, err := client.ListInvoices(ctx, params)
	must(err)
	page, ok := answer.(*api.InvoiceListHeaders)
	check(ok && len(page.Response.Data) > 0, "a page of invoices: %T", answer)
	return page.Response.Data
}

func refused(ctx context.Context, client *api.Client) {
	from, to := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := client.ListInvoices(ctx, api.ListInvoicesParams{DateFrom: api.NewOptDate(from), DateTo: api.NewOptDate(to)})
	wrong, ok := errors.AsType[*api.ErrorStatusCodeWithHeaders](err)
	check(ok && wrong.StatusCode == http.StatusBadRequest, "a wrong range is a 400: %v", err)
	problem := wrong.Response
	check(problem.Code == "invalid_parameter" && len(problem.Errors) == 2 && problem.Errors[0].Field == "date_from", "both days are named: %v", problem)
}

func unchanged(ctx context.Context, client *api.Client, id string) {
	answer, err := client.GetInvoice(ctx, api.GetInvoiceParams{ID: id})
	must(err)
	first, ok := answer.(*api.InvoiceHeaders)
	check(ok && first.LogPosition > 0, "an invoice: %T", answer)
	answer, err = client.GetInvoice(ctx, api.GetInvoiceParams{ID: id, IfNoneMatch: api.NewOptString(first.ETag)})
	must(err)
	_, ok = answer.(*api.GetInvoiceNotModified)
	check(ok, "the invoice has not changed: %T", answer)
}

func slowedDown(ctx context.Context, client *api.Client) {
	for range 5 {
		answer, err := client.GetMe(ctx, api.GetMeParams{})
		if slow, ok := errors.AsType[*api.ErrorStatusCodeWithHeaders](err); ok {
			check(slow.StatusCode == http.StatusTooManyRequests && slow.Response.Code == "rate_limited" && slow.RetryAfter.Value > 0, "a 429: %v", slow)
			return
		}
		must(err)
		me, ok := answer.(*api.KeyInformationHeaders)
		check(ok && me.RateLimitLimit == 1, "the limit is that of the key: %T", answer)
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
