package route

import (
	"slices"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Table returns every endpoint of the API, in the order of the OpenAPI document
// (docs/contract/service.md, "Endpoints"; docs/contract/decisions.md, "Responses").
func Table() []Route {
	return slices.Concat(invoices(), payments(), timeEntries(), contractors(), clients(), totals(), events(), proof(), key())
}

func invoices() []Route {
	invoice := &Resource{Name: "Invoice", Table: "invoice", Fields: domain.InvoiceFields(), Shown: "shown", LastDay: "last_day"}
	charge := &Resource{
		Name: "Charge", Table: "charge", Fields: domain.ChargeFields(), ShownWithoutPay: "billed",
		Removed: "removed_charge", RemovedWithoutPay: "removed_billed_charge",
	}
	return []Route{
		{
			Path: "/v1/invoices", Operation: "listInvoices", Group: "Invoices", Permission: access.InvoicesRead, Kind: Rows, Resource: invoice,
			Summary: "List invoices", Description: "Invoices, packages and credit notes, oldest change first. Drafts are not shown.",
			Params: paged(
				slices.Concat([]Param{updatedSince(), include()}, invoiceFilters())...,
			),
		},
		{
			Path: "/v1/invoices/{id}", Operation: "getInvoice", Group: "Invoices", Permission: access.InvoicesRead, Kind: Row, Resource: invoice,
			Summary: "Get an invoice", Description: "One invoice, package or credit note.",
		},
		{
			Path: "/v1/charges", Operation: "listCharges", Group: "Invoices", Permission: access.InvoicesRead, Kind: Rows, Resource: charge,
			Summary: "List charges", Description: "Charges, oldest change first. Those that are not billed to the client are shown only to keys with pay:read. " +
				"Those that were deleted, or that the key may no longer see, are shown with include=removed.",
			Params: paged(slices.Concat([]Param{updatedSince(), include()}, chargeFilters())...),
		},
		{
			Path: "/v1/charges/{id}", Operation: "getCharge", Group: "Invoices", Permission: access.InvoicesRead, Kind: Row, Resource: charge,
			Summary: "Get a charge", Description: "One charge.",
		},
	}
}

func payments() []Route {
	payment := &Resource{
		Name: "Payment", Table: "payment", Fields: domain.PaymentFields(), ShownWithoutPay: "direction = '" + domain.ReceivedFromClient + "'",
	}
	return []Route{
		{
			Path: "/v1/payments", Operation: "listPayments", Group: "Payments", Permission: access.PaymentsRead, Kind: Rows, Resource: payment,
			Summary: "List payments",
			Description: "Payments that the accounting system has confirmed, oldest change first. " +
				"Payouts to contractors are shown only to keys with pay:read.",
			Params: paged(slices.Concat([]Param{updatedSince(), include()}, paymentFilters())...),
		},
		{
			Path: "/v1/payments/{id}", Operation: "getPayment", Group: "Payments", Permission: access.PaymentsRead, Kind: Row, Resource: payment,
			Summary: "Get a payment", Description: "One payment.",
		},
	}
}

func timeEntries() []Route {
	timeEntry := &Resource{
		Name: "TimeEntry", Table: "time_entry", Fields: domain.TimeEntryFields(), Removed: "removed_time_entry", RemovedWithoutPay: "removed_time_entry",
	}
	return []Route{
		{
			Path: "/v1/time-entries", Operation: "listTimeEntries", Group: "Time entries", Permission: access.TimeEntriesRead, Kind: Rows, Resource: timeEntry,
			Summary: "List time entries", Description: "Time entries, oldest change first. Deleted ones are shown with include=removed.",
			Params: paged(slices.Concat([]Param{updatedSince(), include()}, timeEntryFilters())...),
		},
		{
			Path: "/v1/time-entries/{id}", Operation: "getTimeEntry", Group: "Time entries", Permission: access.TimeEntriesRead, Kind: Row, Resource: timeEntry,
			Summary: "Get a time entry", Description: "One time entry.",
		},
	}
}

func contractors() []Route {
	contractor := &Resource{Name: "Contractor", Table: "contractor", Fields: domain.ContractorFields()}
	return []Route{
		{
			Path: "/v1/contractors", Operation: "listContractors", Group: "Contractors", Permission: access.ContractorsRead, Kind: Rows, Resource: contractor,
			Summary: "List contractors", Description: "Contractors, oldest change first.",
			Params: paged(updatedSince(), include()),
		},
		{
			Path: "/v1/contractors/{id}", Operation: "getContractor", Group: "Contractors", Permission: access.ContractorsRead, Kind: Row, Resource: contractor,
			Summary: "Get a contractor", Description: "One contractor.",
		},
	}
}

func clients() []Route {
	client := &Resource{Name: "Client", Schema: "ClientRecord", Table: "client", Fields: domain.ClientFields()}
	return []Route{
		{
			Path: "/v1/clients", Operation: "listClients", Group: "Clients", Permission: access.ClientsRead, Kind: Rows, Resource: client,
			Summary: "List clients", Description: "Clients with their contacts, oldest change first.",
			Params: paged(updatedSince(), include()),
		},
		{
			Path: "/v1/clients/{id}", Operation: "getClient", Group: "Clients", Permission: access.ClientsRead, Kind: Row, Resource: client,
			Summary: "Get a client", Description: "One client with its contacts.",
		},
		{
			Path: "/v1/clients/{id}/credit", Operation: "getClientCredit", Group: "Clients", Permission: access.CreditsRead, Kind: Credit,
			Summary: "Get a client's credit",
			Description: "A client's credit: balance, prepaid packages in the order in which they were added, and the history, newest first. " +
				"limit and cursor page the history towards older rows. The cursor of the last page gives the rows that were added since the first page was read, newest first, " +
				"so that a follower gets every row once.",
			Params: paged(),
		},
		{
			Path: "/v1/credits", Operation: "listCredits", Group: "Clients", Permission: access.CreditsRead, Kind: Rows,
			Resource: &Resource{Name: "Credit", Table: "client_credit", Fields: domain.CreditRowFields()},
			Summary:  "List client credit",
			Description: "A row for each client that has a credit, without its history, oldest change first. A credit exists as soon as its client is recorded or credit is. " +
				"The row changes with every row of the history, and when the client's name does.",
			Params: paged(updatedSince()),
		},
		{
			Path: "/v1/credit-history", Operation: "listCreditHistory", Group: "Clients", Permission: access.CreditsRead, Kind: Rows,
			Resource: &Resource{Name: "CreditMovement", Table: "credit_move", Fields: domain.CreditHistoryFields(), Base: movementWithClient},
			Summary:  "List credit history",
			Description: "The history of every client's credit, oldest first. Rows stay where they are: only the client's name, which is the one it has now, and a note that is forgotten can change in them. " +
				"An id is unique for its client.",
			Params: paged(clientID()),
		},
	}
}

// movementWithClient is a row of credit_move with the client after the id. The client's row begins with
// its id and name, and no other text in it can look like the name of its next field.
const movementWithClient = `'{"id":"' || id || '","client":' || coalesce((
	  SELECT left(c.base, strpos(c.base, ',"status":') - 1) || '}' FROM client c WHERE c.workspace_id = credit_move.workspace_id AND c.id = credit_move.client_id),
	  '{"id":"' || client_id || '","name":null}') || substr(base, length(id) + length('{"id":""') + 1)`

func events() []Route {
	event := &Resource{Name: "Event", Fields: domain.EventFields()}
	return []Route{
		{
			Path: "/v1/events", Operation: "listEvents", Group: "Events", Permission: access.EventsRead, Kind: Events, Resource: event,
			Summary: "List events",
			Description: "Events in publish order, oldest first, kept for 30 days: follow the feed by its cursor without missing any. " +
				"An event shows when every effect of its entry can be read. payout.paid, and charge.created and charge.deleted of a charge that is not billed to the client, are shown only to keys with pay:read; without it, " +
				"type=payout.paid gives an empty list. A cursor whose next event is no longer kept is refused with 400: start again with created_since. An event of an entry without effect is shown, too, and its object may be a 404; invoice_id may name a draft, which is a 404 until it is shown.",
			Params: paged(
				Param{Name: "type", Form: FormEnum, Values: domain.PublicTypes(), Enum: "EventTypeFilter", Description: "Only events of this type.", Example: "invoice.paid"},
				Param{
					Name: "created_since", Form: FormTime, Example: "2026-10-02T09:15:00.120Z",
					Description: "Only events published at or after this time, such as the created_at of the last event that was handled. Finer than a millisecond is cut.",
				},
			),
		},
		{
			Path: "/v1/events/{id}", Operation: "getEvent", Group: "Events", Permission: access.EventsRead, Kind: Event, Resource: event,
			Summary: "Get an event", Description: "One event, within 30 days of its publish time.",
		},
	}
}

// proof returns the endpoints of the tree of events (docs/contract/decisions.md, "A feed that
// proves itself").
func proof() []Route {
	return []Route{
		{
			Path: "/v1/events/checkpoint", Operation: "getCheckpoint", Group: "Proof", Permission: access.EventsRead, Kind: Checkpoint,
			Summary: "Get the checkpoint of the events",
			Description: "A signed note (c2sp.org/tlog-checkpoint): the events that this key sees, as a Merkle tree (RFC 6962) in publish order from the first one on. Its lines are the origin, which is also " +
				"the name of the signing key, the number of events, the root in base64, position and the position of the workspace's log, chain and the log's chain value there. " +
				"After the signatures of the service, lines with cosignatures of witnesses (c2sp.org/tlog-cosignature) can follow: each witness has seen this tree and everything that it extends. " +
				"A leaf is an event byte for byte as /v1/events shows it. The checkpoint is less than a second behind the events. With Prefer: wait=N and the ETag of the last one in If-None-Match, the answer is held until there is another. " +
				"404 if the service has no signing key.",
		},
		{
			Path: "/v1/events/tile/{level}/{tile}", Operation: "getTile", Group: "Proof", Permission: access.EventsRead, Kind: Tile,
			Summary: "Get hashes of the tree of the events",
			Description: "A tile (c2sp.org/tlog-tiles): 256 hashes of 32 bytes, or the first W of them. It never changes, and the caller alone may cache it: keys with and without pay:read get those of different trees at the same address. " +
				"404 until the tree has so many hashes.",
		},
		{
			Path: "/v1/events/tile/entries/{tile}", Operation: "getEntries", Group: "Proof", Permission: access.EventsRead, Kind: Bundle,
			Summary: "Get the events of a tile of the tree",
			Description: "The 256 events whose hashes a tile of level 0 has, or the first W of them (an entry bundle of c2sp.org/tlog-tiles): each after its length in two bytes, the higher one first. " +
				"404 until the tree has them, and again when the first of them is no longer kept.",
		},
	}
}

// key returns the endpoints that any valid key may use.
func key() []Route {
	return []Route{
		{
			Path: "/v1/me", Operation: "getMe", Group: "Key", Kind: KeyInfo,
			Summary: "Whose key this is, and what it may do", Description: "The workspace and the key with which the request was made.",
		},
		{
			Path: "/v1/openapi.json", Operation: "getOpenAPI", Group: "Key", Kind: Document,
			Summary: "This description", Description: "The OpenAPI 3.1 description of the API.",
		},
	}
}

// paged returns the parameters of a page, followed by those that select its rows.
func paged(selection ...Param) []Param {
	return append([]Param{
		{Name: "limit", Form: FormLimit, Description: "The most rows of a page.", Example: "50"},
		{
			Name: "cursor", Form: FormCursor, Example: "q83vEjRWeJASNFZ4kBI0Vg",
			Description: "next_cursor of the page before. Every other parameter must stay as it was, limit included. It does not expire " +
				"and is opaque. It works with every key of the workspace that sees no more of the list than the key that it was given to; with one that sees more, because of pay:read or margin:read, " +
				"it is a 400 with the code cursor_permissions: start again without a cursor. If the service goes back to an earlier state, a cursor given after it is a 400 with cursor_reset that says what to read again.",
		},
	}, selection...)
}

func updatedSince() Param {
	return Param{
		Name: "updated_since", Form: FormTime, Example: "2026-10-02T09:15:00.120Z",
		Description: "Only rows that changed at or after this time. Finer than a millisecond is cut.",
	}
}

// invoiceFilters are the filters of invoices.
func invoiceFilters() []Param {
	return []Param{
		period(), dateFrom(overlapping), dateTo(overlapping), clientID(), contractorID(),
		{Name: "status", Form: FormEnum, Values: domain.BillingStatuses(), Enum: "InvoiceStatusFilter", Column: "status", Description: "Only invoices with this client_billing_status.", Example: "sent"},
		{Name: "type", Form: FormEnum, Values: domain.InvoiceTypes(), Enum: "InvoiceTypeFilter", Column: "type", Description: "Only this type.", Example: "invoice"},
		{
			Name: "open", Form: FormOpen, Values: []string{"true", "false"}, Enum: "OpenFilter", Example: "true",
			Description: "true: only invoices that were sent and are not paid: type is not credit_note, client_billing_status is sent, net_due is above 0.00, and neither reversed nor billed_externally is true. false: only the others.",
		},
	}
}

// chargeFilters are the filters of charges.
func chargeFilters() []Param {
	return []Param{period(), dateFrom("date"), dateTo("date"), clientID(), contractorID()}
}

// timeEntryFilters are the filters of time entries.
func timeEntryFilters() []Param {
	return []Param{
		period(), dateFrom("work_date"), dateTo("work_date"), clientID(), contractorID(),
		{Name: "status", Form: FormEnum, Values: domain.LineStatuses(), Enum: "TimeEntryStatusFilter", Column: "status", Description: "Only time entries with this status.", Example: "approved"},
	}
}

// paymentFilters are the filters of payments.
func paymentFilters() []Param {
	const confirmed = "the day of confirmed_at, in UTC,"
	return []Param{
		dateFrom(confirmed), dateTo(confirmed), clientID(),
		{
			Name: "direction", Form: FormEnum, Values: []string{domain.ReceivedFromClient, domain.PaidToContractor}, Enum: "DirectionFilter", Column: "direction",
			Description: "Only this direction. Without pay:read, paid_to_contractor gives an empty list.", Example: domain.ReceivedFromClient,
		},
	}
}

// overlapping says which invoices a range of days has.
const overlapping = "any day of the period"

func dateFrom(of string) Param {
	return Param{Name: "date_from", Form: FormDateFrom, Description: "Only rows for which " + of + " is this day or later.", Example: "2026-10-01"}
}

func dateTo(of string) Param {
	return Param{Name: "date_to", Form: FormDateTo, Description: "Only rows for which " + of + " is this day or earlier.", Example: "2026-10-31"}
}

// include is a parameter of all lists of rows, even of those that no row leaves today, so that
// followers treat all lists alike.
func include() Param {
	return Param{
		Name: "include", Form: FormInclude, Values: []string{"removed"}, Enum: "Include", Example: "removed",
		Description: "removed: the list also shows the rows that were deleted or have left the sight of the key, each at the place of the entry that took it away and with id, removed and updated_at alone. " +
			"Filters find them by the values that they had last. A row that comes back is an ordinary row again. Time entries and charges can be deleted, " +
			"and a charge that is no longer billed to the client leaves the list of keys without pay:read; other rows never leave. A row that no longer matches a filter is not reported: follow lists without filters that can change.",
	}
}

func period() Param {
	return Param{
		Name: "period", Form: FormPeriod, Column: "period", Example: "2026-10",
		Description: "Only rows of exactly this billing period: YYYY-MM, YYYY-Www or YYYY-BWnn. A month does not include weekly periods or periods of two weeks, even if all their days are in it, and the answer does not say so: for all of a month, use date_from and date_to.",
	}
}

func clientID() Param {
	return Param{Name: "client_id", Form: FormID, Column: "client_id", Description: "Only rows of this client.", Example: "cl_4821"}
}

func contractorID() Param {
	return Param{Name: "contractor_id", Form: FormID, Column: "contractor_id", Description: "Only rows of this contractor.", Example: "co_118"}
}
