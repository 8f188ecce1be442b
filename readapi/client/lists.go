package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// Invoices reads the invoices, oldest change first.
func (c *Client) Invoices(ctx context.Context, params InvoiceParams) iter.Seq2[*Invoice, error] {
	return rows[Invoice](ctx, c, "/v1/invoices", queryOf(params))
}

// InvoicePages is Invoices in pages.
func (c *Client) InvoicePages(ctx context.Context, params InvoiceParams) iter.Seq2[*Page[Invoice], error] {
	return pages[Invoice](ctx, c, "/v1/invoices", queryOf(params))
}

// FollowInvoices keeps a copy of the invoices up to date. It gives what has changed since the place
// in state, and then waits for more, until ctx ends or the loop is left. The place is saved when the
// body of the loop has ended and the loop goes on. So leave the loop by an error or a return when
// you could not take a page over: the next run gets that page again.
//
// A page without rows says that nothing is new. Follow without filters that a row can stop
// matching: no page would tell you.
func (c *Client) FollowInvoices(ctx context.Context, params InvoiceParams, state State, o FollowOptions) iter.Seq2[*Page[Invoice], error] {
	params.IncludeRemoved = true
	return follow[Invoice](ctx, c, "/v1/invoices", queryOf(params), state, o)
}

// WholeInvoices reads the invoices in one answer.
func (c *Client) WholeInvoices(params InvoiceParams) *Whole[Invoice] {
	return whole[Invoice](c, "/v1/invoices", queryOf(params))
}

// Invoice reads an invoice by its id.
func (c *Client) Invoice(ctx context.Context, id string) (*Invoice, error) {
	return get[Invoice](ctx, c, "/v1/invoices/"+url.PathEscape(id), nil)
}

// Charges reads the charges, oldest change first.
func (c *Client) Charges(ctx context.Context, params ChargeParams) iter.Seq2[*Charge, error] {
	return rows[Charge](ctx, c, "/v1/charges", queryOf(params))
}

// ChargePages is Charges in pages.
func (c *Client) ChargePages(ctx context.Context, params ChargeParams) iter.Seq2[*Page[Charge], error] {
	return pages[Charge](ctx, c, "/v1/charges", queryOf(params))
}

// FollowCharges keeps a copy of the charges up to date. See FollowInvoices.
func (c *Client) FollowCharges(ctx context.Context, params ChargeParams, state State, o FollowOptions) iter.Seq2[*Page[Charge], error] {
	params.IncludeRemoved = true
	return follow[Charge](ctx, c, "/v1/charges", queryOf(params), state, o)
}

// WholeCharges reads the charges in one answer.
func (c *Client) WholeCharges(params ChargeParams) *Whole[Charge] {
	return whole[Charge](c, "/v1/charges", queryOf(params))
}

// Charge reads a charge by its id.
func (c *Client) Charge(ctx context.Context, id string) (*Charge, error) {
	return get[Charge](ctx, c, "/v1/charges/"+url.PathEscape(id), nil)
}

// TimeEntries reads the time entries, oldest change first.
func (c *Client) TimeEntries(ctx context.Context, params TimeEntryParams) iter.Seq2[*TimeEntry, error] {
	return rows[TimeEntry](ctx, c, "/v1/time-entries", queryOf(params))
}

// TimeEntryPages is TimeEntries in pages.
func (c *Client) TimeEntryPages(ctx context.Context, params TimeEntryParams) iter.Seq2[*Page[TimeEntry], error] {
	return pages[TimeEntry](ctx, c, "/v1/time-entries", queryOf(params))
}

// FollowTimeEntries keeps a copy of the time entries up to date. See FollowInvoices.
func (c *Client) FollowTimeEntries(ctx context.Context, params TimeEntryParams, state State, o FollowOptions) iter.Seq2[*Page[TimeEntry], error] {
	params.IncludeRemoved = true
	return follow[TimeEntry](ctx, c, "/v1/time-entries", queryOf(params), state, o)
}

// WholeTimeEntries reads the time entries in one answer.
func (c *Client) WholeTimeEntries(params TimeEntryParams) *Whole[TimeEntry] {
	return whole[TimeEntry](c, "/v1/time-entries", queryOf(params))
}

// TimeEntry reads a time entry by its id.
func (c *Client) TimeEntry(ctx context.Context, id string) (*TimeEntry, error) {
	return get[TimeEntry](ctx, c, "/v1/time-entries/"+url.PathEscape(id), nil)
}

// Payments reads the payments, oldest change first.
func (c *Client) Payments(ctx context.Context, params PaymentParams) iter.Seq2[*Payment, error] {
	return rows[Payment](ctx, c, "/v1/payments", queryOf(params))
}

// PaymentPages is Payments in pages.
func (c *Client) PaymentPages(ctx context.Context, params PaymentParams) iter.Seq2[*Page[Payment], error] {
	return pages[Payment](ctx, c, "/v1/payments", queryOf(params))
}

// FollowPayments keeps a copy of the payments up to date. See FollowInvoices.
func (c *Client) FollowPayments(ctx context.Context, params PaymentParams, state State, o FollowOptions) iter.Seq2[*Page[Payment], error] {
	params.IncludeRemoved = true
	return follow[Payment](ctx, c, "/v1/payments", queryOf(params), state, o)
}

// WholePayments reads the payments in one answer.
func (c *Client) WholePayments(params PaymentParams) *Whole[Payment] {
	return whole[Payment](c, "/v1/payments", queryOf(params))
}

// Payment reads a payment by its id.
func (c *Client) Payment(ctx context.Context, id string) (*Payment, error) {
	return get[Payment](ctx, c, "/v1/payments/"+url.PathEscape(id), nil)
}

// Clients reads the clients, oldest change first.
func (c *Client) Clients(ctx context.Context, params PartyParams) iter.Seq2[*ClientRecord, error] {
	return rows[ClientRecord](ctx, c, "/v1/clients", queryOf(params))
}

// ClientPages is Clients in pages.
func (c *Client) ClientPages(ctx context.Context, params PartyParams) iter.Seq2[*Page[ClientRecord], error] {
	return pages[ClientRecord](ctx, c, "/v1/clients", queryOf(params))
}

// FollowClients keeps a copy of the clients up to date. See FollowInvoices.
func (c *Client) FollowClients(ctx context.Context, params PartyParams, state State, o FollowOptions) iter.Seq2[*Page[ClientRecord], error] {
	params.IncludeRemoved = true
	return follow[ClientRecord](ctx, c, "/v1/clients", queryOf(params), state, o)
}

// WholeClients reads the clients in one answer.
func (c *Client) WholeClients(params PartyParams) *Whole[ClientRecord] {
	return whole[ClientRecord](c, "/v1/clients", queryOf(params))
}

// Client reads a client by its id.
func (c *Client) Client(ctx context.Context, id string) (*ClientRecord, error) {
	return get[ClientRecord](ctx, c, "/v1/clients/"+url.PathEscape(id), nil)
}

// Contractors reads the contractors, oldest change first.
func (c *Client) Contractors(ctx context.Context, params PartyParams) iter.Seq2[*Contractor, error] {
	return rows[Contractor](ctx, c, "/v1/contractors", queryOf(params))
}

// ContractorPages is Contractors in pages.
func (c *Client) ContractorPages(ctx context.Context, params PartyParams) iter.Seq2[*Page[Contractor], error] {
	return pages[Contractor](ctx, c, "/v1/contractors", queryOf(params))
}

// FollowContractors keeps a copy of the contractors up to date. See FollowInvoices.
func (c *Client) FollowContractors(ctx context.Context, params PartyParams, state State, o FollowOptions) iter.Seq2[*Page[Contractor], error] {
	params.IncludeRemoved = true
	return follow[Contractor](ctx, c, "/v1/contractors", queryOf(params), state, o)
}

// WholeContractors reads the contractors in one answer.
func (c *Client) WholeContractors(params PartyParams) *Whole[Contractor] {
	return whole[Contractor](c, "/v1/contractors", queryOf(params))
}

// Contractor reads a contractor by its id.
func (c *Client) Contractor(ctx context.Context, id string) (*Contractor, error) {
	return get[Contractor](ctx, c, "/v1/contractors/"+url.PathEscape(id), nil)
}

// Credits reads the credit of each client that has any, oldest change first.
func (c *Client) Credits(ctx context.Context, params CreditParams) iter.Seq2[*Credit, error] {
	return rows[Credit](ctx, c, "/v1/credits", queryOf(params))
}

// CreditPages is Credits in pages.
func (c *Client) CreditPages(ctx context.Context, params CreditParams) iter.Seq2[*Page[Credit], error] {
	return pages[Credit](ctx, c, "/v1/credits", queryOf(params))
}

// FollowCredits keeps a copy of the credit of each client that has any up to date. See FollowInvoices.
func (c *Client) FollowCredits(ctx context.Context, params CreditParams, state State, o FollowOptions) iter.Seq2[*Page[Credit], error] {
	return follow[Credit](ctx, c, "/v1/credits", queryOf(params), state, o)
}

// WholeCredits reads the credit of each client that has any in one answer.
func (c *Client) WholeCredits(params CreditParams) *Whole[Credit] {
	return whole[Credit](c, "/v1/credits", queryOf(params))
}

// CreditHistory reads the history of all clients' credit, oldest first.
func (c *Client) CreditHistory(ctx context.Context, params CreditHistoryParams) iter.Seq2[*CreditMovement, error] {
	return rows[CreditMovement](ctx, c, "/v1/credit-history", queryOf(params))
}

// CreditHistoryPages is CreditHistory in pages.
func (c *Client) CreditHistoryPages(ctx context.Context, params CreditHistoryParams) iter.Seq2[*Page[CreditMovement], error] {
	return pages[CreditMovement](ctx, c, "/v1/credit-history", queryOf(params))
}

// FollowCreditHistory keeps a copy of the history of all clients' credit up to date. See FollowInvoices.
func (c *Client) FollowCreditHistory(ctx context.Context, params CreditHistoryParams, state State, o FollowOptions) iter.Seq2[*Page[CreditMovement], error] {
	return follow[CreditMovement](ctx, c, "/v1/credit-history", queryOf(params), state, o)
}

// WholeCreditHistory reads the history of all clients' credit in one answer.
func (c *Client) WholeCreditHistory(params CreditHistoryParams) *Whole[CreditMovement] {
	return whole[CreditMovement](c, "/v1/credit-history", queryOf(params))
}

// Events reads the events, in publish order.
func (c *Client) Events(ctx context.Context, params EventParams) iter.Seq2[*Event, error] {
	return rows[Event](ctx, c, "/v1/events", queryOf(params))
}

// EventPages is Events in pages.
func (c *Client) EventPages(ctx context.Context, params EventParams) iter.Seq2[*Page[Event], error] {
	return pages[Event](ctx, c, "/v1/events", queryOf(params))
}

// FollowEvents gives the events that were published since the place in state, each once as long as
// every page is saved, and then waits for more. See FollowInvoices.
func (c *Client) FollowEvents(ctx context.Context, params EventParams, state State, o FollowOptions) iter.Seq2[*Page[Event], error] {
	return follow[Event](ctx, c, "/v1/events", queryOf(params), state, o)
}

// Event reads an event by its id.
func (c *Client) Event(ctx context.Context, id string) (*Event, error) {
	return get[Event](ctx, c, "/v1/events/"+url.PathEscape(id), nil)
}

// InvoiceTotals reads sums over the invoices, all at one position of the log. groupBy has at
// most two. The totals take only the filters of params.
func (c *Client) InvoiceTotals(ctx context.Context, params InvoiceParams, groupBy ...GroupBy) (*InvoiceTotals, error) {
	return get[InvoiceTotals](ctx, c, "/v1/totals/invoices", totalsOf(params, groupBy))
}

// ChargeTotals reads sums over the charges. See InvoiceTotals.
func (c *Client) ChargeTotals(ctx context.Context, params ChargeParams, groupBy ...GroupBy) (*ChargeTotals, error) {
	return get[ChargeTotals](ctx, c, "/v1/totals/charges", totalsOf(params, groupBy))
}

// TimeEntryTotals reads sums over the time entries. See InvoiceTotals.
func (c *Client) TimeEntryTotals(ctx context.Context, params TimeEntryParams, groupBy ...GroupBy) (*TimeEntryTotals, error) {
	return get[TimeEntryTotals](ctx, c, "/v1/totals/time-entries", totalsOf(params, groupBy))
}

// PaymentTotals reads sums over the payments. See InvoiceTotals.
func (c *Client) PaymentTotals(ctx context.Context, params PaymentParams, groupBy ...GroupBy) (*PaymentTotals, error) {
	return get[PaymentTotals](ctx, c, "/v1/totals/payments", totalsOf(params, groupBy))
}

// ClientCredit reads a client's credit, with a page of its history, newest first. cursor goes on in
// the history; empty: from its start. limit is the number of rows of the history, 1 to 100; 0: 50.
func (c *Client) ClientCredit(ctx context.Context, clientID, cursor string, limit int) (*ClientCredit, error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return get[ClientCredit](ctx, c, "/v1/clients/"+url.PathEscape(clientID)+"/credit", query)
}

// Me reads the workspace, and the key's permissions and limit.
func (c *Client) Me(ctx context.Context) (*KeyInformation, error) {
	return get[KeyInformation](ctx, c, "/v1/me", nil)
}
