package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

const (
	toTheInvoice    = `href="/data/invoices/in_1" title="in_1"><span class="visually-hidden">invoice </span>INV-1</a>`
	toTheClient     = `href="/data/clients/cl_1" title="cl_1"><span class="visually-hidden">client </span>Northwind Clinic</a>`
	toTheContractor = `href="/data/contractors/co_1" title="co_1"><span class="visually-hidden">contractor </span>Rosa Tran</a>`
	toTheEntry      = `href="/data/time-entries/te_1" title="te_1"><span class="visually-hidden">time entry </span>Advice</a>`
	toThePayment    = `href="/data/payments/pm_1" title="pm_1"><span class="visually-hidden">`
	amountPaid      = "998.59\u00a0EUR"
	amountInvoiced  = "1,275.71\u00a0EUR"
)

// TestIDsLeadToTheirRows: events, deliveries and requests show what rows are called, and lead to their
// pages. An id without a row is plain text, and so is the id of a row that the person may not see.
func TestIDsLeadToTheirRows(t *testing.T) {
	t.Parallel()
	s := setup(t)
	admin, viewer := s.signIn(acme, session.Admin), s.signIn(acme, session.Viewer)
	hook := testkit.Must(s.webhooks.Create(t.Context(), acme, delivery.Definition{URL: "https://hooks.example.com", Events: []string{delivery.AllEvents}}))(t).ID
	add := s.projecting()
	add("client.recorded", time.Time{}, `{"client_id":"cl_1","name":"Northwind Clinic"}`)
	add("contractor.recorded", time.Time{}, `{"contractor_id":"co_1","name":"Rosa Tran"}`)
	add("invoice.recorded", time.Time{}, invoiceOf)
	add("time_entry.recorded", time.Time{}, timeEntryOf)
	add("invoice.issued", time.Time{}, `{"invoice_id":"in_1","invoice_number":"D-1","amount":"1275.71"}`)
	add("payout.paid", time.Time{}, `{"payment_id":"pm_1","invoice_id":"in_1","contractor_id":"co_1","amount":"998.59","currency":"EUR","source":"bank"}`)
	add("time_entry.approved", time.Time{}, `{"time_entry_id":"te_1","client_id":"cl_1"}`)
	sent := add("invoice.sent", time.Time{}, `{"invoice_id":"in_1"}`)
	ghost := add("invoice.reversed", time.Time{}, `{"invoice_id":"in_ghost","client_id":"cl_ghost"}`)

	viewer.get("/events").status(http.StatusOK).has(toTheInvoice+`</span> <span class="muted whole">`+amountInvoiced, "D-1</a></span></span></td>", toTheClient, toTheEntry, "in_ghost").hasNot(`/data/invoices/in_ghost`, `/data/clients/cl_ghost`, amountPaid)
	admin.get("/events").status(http.StatusOK).has(toThePayment+"payout </span>"+amountPaid+"</a>", toTheContractor)
	s.exec(`INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, attempts)
		SELECT workspace_id, $2, position, created_at, id, type, 'succeeded', '[]' FROM event_log WHERE workspace_id = $1 AND public_event IS NOT NULL`, acme, hook)
	viewer.get("/webhooks/"+hook).status(http.StatusOK).has(toTheInvoice, toTheEntry, "in_ghost").hasNot(`/data/invoices/in_ghost`)
	viewer.get("/deliveries/" + sent + "_" + hook).status(http.StatusOK).has(`<span class="of"><a ` + toTheInvoice)
	viewer.get("/deliveries/" + ghost + "_" + hook).status(http.StatusOK).has("in_ghost").hasNot(`/data/invoices/in_ghost`)

	id, _ := s.key(acme, "Report", access.InvoicesRead)
	of := func(request, route, path string) requestlog.Record {
		return requestlog.Record{RequestID: request, Route: route, Path: path, Status: http.StatusOK}
	}
	s.record(acme, id, of("req_1", "/v1/invoices/{id}", "/v1/invoices/in_1"), of("req_2", "/v1/clients/{id}/credit", "/v1/clients/cl_1/credit"),
		of("req_3", "/v1/time-entries/{id}", "/v1/time-entries/te_1"), of("req_4", "/v1/time-entries/{id}", "/v1/time-entries/te_ghost"),
		of("req_5", "/v1/payments/{id}", "/v1/payments/pm_1"), of("req_6", "/v1/invoices", ""))
	viewer.get("/requests").status(http.StatusOK).has(toTheInvoice, toTheClient, toTheEntry, "/v1/time-entries/te_ghost").hasNot("/data/time-entries/te_ghost", toThePayment)
	admin.get("/requests").status(http.StatusOK).has(toThePayment + "payment </span>" + amountPaid)
	page := viewer.get("/requests?find=req_2").status(http.StatusOK)
	_, cursor, _ := strings.Cut(page.body, `class="break" href="/requests/`)
	cursor, _, _ = strings.Cut(cursor, `"`)
	viewer.get("/requests/"+cursor).status(http.StatusOK).has("<dt>About</dt>", toTheClient)
}

// TestNamesThatCannotBeRead: pages come without them.
func TestNamesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, _ := s.key(acme, "Report", access.InvoicesRead)
	s.record(acme, id, requestlog.Record{RequestID: "req_1", Route: "/v1/invoices/{id}", Path: "/v1/invoices/in_1", Status: http.StatusOK})
	s.exec(`ALTER TABLE invoice RENAME TO invoice_away`)
	s.signIn(acme, session.Viewer).get("/requests").status(http.StatusOK).has("/v1/invoices/in_1").hasNot("/data/invoices/in_1")
}
