package readapi

import (
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// routeTable is every endpoint of the API (docs/contract/service.md, "Endpoints";
// docs/contract/decisions.md, "Responses").
func routeTable() []*route {
	var (
		invoice    = &resource{name: "Invoice", table: "invoice", fields: domain.InvoiceFields(), visible: "shown"}
		charge     = &resource{name: "Charge", table: "charge", fields: domain.ChargeFields(), open: "billed"}
		payment    = &resource{name: "Payment", table: "payment", fields: domain.PaymentFields(), open: "direction = '" + domain.ReceivedFromClient + "'"}
		timeEntry  = &resource{name: "TimeEntry", table: "time_entry", fields: domain.TimeEntryFields()}
		client     = &resource{name: "Client", table: "client", fields: domain.ClientFields()}
		contractor = &resource{name: "Contractor", table: "contractor", fields: domain.ContractorFields()}
		event      = &resource{name: "Event", fields: domain.EventFields()}
	)
	return []*route{
		list(invoice, "/v1/invoices", "listInvoices", "Invoices", access.InvoicesRead,
			"List invoices", "Invoices, packages and credit notes, oldest change first. Drafts are not shown.",
			updatedSince(), period(), clientID(), contractorID(),
			param{name: "status", form: formEnum, values: domain.BillingStatuses(), column: "status", doc: "Only invoices with this client_billing_status.", example: "sent"},
			param{name: "type", form: formEnum, values: domain.InvoiceTypes(), column: "type", doc: "Only this type.", example: "invoice"},
		),
		one(invoice, "/v1/invoices/{id}", "getInvoice", "Invoices", access.InvoicesRead, "Get an invoice", "One invoice, package or credit note."),
		list(charge, "/v1/charges", "listCharges", "Invoices", access.InvoicesRead,
			"List charges", "Charges, oldest change first. Those that are not billed to the client are shown only to keys with pay:read.",
			updatedSince(), period(), clientID(), contractorID(),
		),
		one(charge, "/v1/charges/{id}", "getCharge", "Invoices", access.InvoicesRead, "Get a charge", "One charge."),
		list(payment, "/v1/payments", "listPayments", "Payments", access.PaymentsRead,
			"List payments", "Payments that the accounting system has confirmed, oldest change first. "+
				"Payouts to contractors are shown only to keys with pay:read.",
			updatedSince(), clientID(),
			param{
				name: "direction", form: formEnum, values: []string{domain.ReceivedFromClient, domain.PaidToContractor}, column: "direction",
				doc: "Only this direction. Without pay:read, paid_to_contractor gives an empty list.", example: domain.ReceivedFromClient,
			},
		),
		one(payment, "/v1/payments/{id}", "getPayment", "Payments", access.PaymentsRead, "Get a payment", "One payment."),
		list(timeEntry, "/v1/time-entries", "listTimeEntries", "Time entries", access.TimeEntriesRead,
			"List time entries", "Time entries, oldest change first.",
			updatedSince(), period(), clientID(), contractorID(),
			param{name: "status", form: formEnum, values: domain.LineStatuses(), column: "status", doc: "Only time entries with this status.", example: "approved"},
		),
		one(timeEntry, "/v1/time-entries/{id}", "getTimeEntry", "Time entries", access.TimeEntriesRead, "Get a time entry", "One time entry."),
		list(contractor, "/v1/contractors", "listContractors", "Contractors", access.ContractorsRead,
			"List contractors", "Contractors, oldest change first.", updatedSince()),
		one(contractor, "/v1/contractors/{id}", "getContractor", "Contractors", access.ContractorsRead, "Get a contractor", "One contractor."),
		list(client, "/v1/clients", "listClients", "Clients", access.ClientsRead,
			"List clients", "Clients with their contacts, oldest change first.", updatedSince()),
		one(client, "/v1/clients/{id}", "getClient", "Clients", access.ClientsRead, "Get a client", "One client with its contacts."),
		{
			pattern: "/v1/clients/{id}/credit", operation: "getClientCredit", group: "Clients", permission: access.CreditsRead,
			summary: "Get a client's credit",
			description: "A client's credit: balance, prepaid packages in the order in which they were added, and the history, newest first. " +
				"limit and cursor page the history towards older rows. The cursor of the last page gives the rows that were added since the first page was read, newest first, " +
				"so that a follower gets every row once.",
			params: []param{limitParam(), cursor()},
			shape:  shapeCredit, answer: (*call).answerCredit, version: (*call).versionOfRows,
		},
		{
			pattern: "/v1/events", operation: "listEvents", group: "Events", permission: access.EventsRead,
			summary: "List events",
			description: "Events in publish order, oldest first, kept for 30 days: follow the feed by its cursor without missing any. " +
				"An event shows when everything that it speaks of can be read. payout.paid is shown only to keys with pay:read; without it, " +
				"type=payout.paid gives an empty list. A cursor whose next event is no longer kept is refused with 400: begin anew with created_since.",
			params: []param{
				limitParam(), cursor(),
				{name: "type", form: formEnum, values: domain.PublicTypes(), doc: "Only events of this type.", example: "invoice.paid"},
				{
					name: "created_since", form: formTime, example: "2026-10-02T09:15:00.120Z",
					doc: "Only events published at or after this time, such as the created_at of the last event that was handled. Finer than a millisecond is cut.",
				},
			},
			shape: shapeList, resource: event, answer: (*call).answerEvents, version: (*call).versionOfFeed,
		},
		{
			pattern: "/v1/events/{id}", operation: "getEvent", group: "Events", permission: access.EventsRead,
			summary: "Get an event", description: "One event, within 30 days of its publish time.",
			shape: shapeOne, resource: event, answer: (*call).answerEvent,
		},
		{
			pattern: "/v1/me", operation: "getMe", group: "Key", summary: "Whose key this is, and what it may do",
			description: "The workspace and the key with which the request was made.",
			shape:       shapeMe, answer: (*call).answerMe,
		},
		{
			pattern: "/v1/openapi.json", operation: "getOpenAPI", group: "Key", summary: "This description",
			description: "The OpenAPI 3.1 description of the API.",
			shape:       shapeDocument, answer: (*call).answerDocument, version: (*call).versionOfDocument,
		},
	}
}

func list(r *resource, pattern, operation, group string, p access.Permission, summary, description string, filters ...param) *route {
	return &route{
		pattern: pattern, operation: operation, group: group, permission: p, summary: summary, description: description,
		params: append([]param{limitParam(), cursor()}, filters...),
		shape:  shapeList, resource: r, answer: (*call).answerList, version: (*call).versionOfRows,
	}
}

func one(r *resource, pattern, operation, group string, p access.Permission, summary, description string) *route {
	return &route{
		pattern: pattern, operation: operation, group: group, permission: p, summary: summary, description: description,
		shape: shapeOne, resource: r, answer: (*call).answerOne, version: (*call).versionOfRows,
	}
}

func limitParam() param {
	return param{name: "limit", form: formLimit, doc: "The most rows of a page.", example: "50"}
}

func cursor() param {
	return param{
		name: "cursor", form: formCursor, example: "q83vEjRWeJASNFZ4kBI0Vg",
		doc: "next_cursor of the page before. Every other parameter must stay as it was, limit included. It does not expire, " +
			"works with every key of the workspace, and is opaque.",
	}
}

func updatedSince() param {
	return param{
		name: "updated_since", form: formTime, example: "2026-10-02T09:15:00.120Z",
		doc: "Only rows that changed at or after this time. Finer than a millisecond is cut.",
	}
}

func period() param {
	return param{
		name: "period", form: formPeriod, column: "period", example: "2026-10",
		doc: "Only rows of this billing period: YYYY-MM, YYYY-Www or YYYY-BWnn.",
	}
}

func clientID() param {
	return param{name: "client_id", form: formID, column: "client_id", doc: "Only rows of this client.", example: "cl_4821"}
}

func contractorID() param {
	return param{name: "contractor_id", form: formID, column: "contractor_id", doc: "Only rows of this contractor.", example: "co_118"}
}
