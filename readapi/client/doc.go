// Package client reads the API: invoices, time entries, charges, payments, clients, contractors,
// credit and events of one workspace. It also checks and receives the webhooks.
//
//	api, err := client.New(client.Config{URL: "https://api.example.com", Key: os.Getenv("API_KEY")})
//	for invoice, err := range api.Invoices(ctx, client.InvoiceParams{Status: client.InvoiceStatusSent}) {
//
// The package needs only the standard library. There are four ways to read a list:
//
//   - Invoices gives the rows as they are now, InvoicePages the same in pages.
//   - FollowInvoices goes on for as long as the program runs, and gives each row again when it
//     changes. It keeps its place in a State, so that a later run goes on from there.
//   - WholeInvoices gives a long list in one answer, as it was at one moment.
//
// The other lists have the same methods. An amount of money and a number of hours are a Decimal,
// which is exact.
//
// A field is nil if it has no value, and also if the key may not see it. Me says which permissions
// the key has. Never read a nil as zero.
//
// A call is tried again if the service is busy, fails or cannot be reached, for as long as
// Config.RetryFor says. An answer that refuses the request is an *Error, whose Code says why.
package client
