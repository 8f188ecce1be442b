package route

import (
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// What totals can be grouped by.
const (
	ByClient     = "client"
	ByContractor = "contractor"
	ByMonth      = "month"
	ByStatus     = "status"
)

// MaxTotals is the most rows of an answer with totals (docs/contract/decisions.md, "Responses").
const MaxTotals = 10_000

// totals returns the endpoints that add up the rows of lists.
func totals() []Route {
	byAll := []string{ByClient, ByContractor, ByMonth, ByStatus}
	invoice := totalOf("Invoice", invoices()[0].Resource, "client_billing_status", Total{
		Groups: byAll, Separated: []string{"type", "reversed"},
		Sums: []string{"gross_amount", "credit_applied", "net_due", "delivered_value", "recognized_revenue", "billable_hours", "payout_amount", "margin_amount"},
	})
	charge := totalOf("Charge", invoices()[2].Resource, "status", Total{Groups: byAll, Sums: []string{"amount", "pay_amount"}})
	timeEntry := totalOf("TimeEntry", timeEntries()[0].Resource, "status", Total{Groups: byAll, Sums: []string{"hours", "session_count", "bill_amount", "pay_amount"}})
	payment := totalOf("Payment", payments()[0].Resource, "", Total{Groups: byAll[:3], Separated: []string{"direction"}, Sums: []string{"amount"}})
	return []Route{
		total("invoices", "Invoices", access.InvoicesRead, invoice, "Add up invoices",
			"Sums over the invoices that the list shows with the same filters. Credit notes and reversed invoices are in rows of their own. Subtract credit notes from sums and keep reversed invoices, which credit notes take back.", invoiceFilters()),
		total("charges", "Charges", access.InvoicesRead, charge, "Add up charges", "Sums over the charges that the list shows with the same filters.", chargeFilters()),
		total("time-entries", "TimeEntries", access.TimeEntriesRead, timeEntry, "Add up time entries", "Sums over the time entries that the list shows with the same filters.", timeEntryFilters()),
		total("payments", "Payments", access.PaymentsRead, payment, "Add up payments",
			"Sums over the payments that the list shows with the same filters, in rows of their own for each direction.", paymentFilters()),
	}
}

func total(list, operation string, needs access.Permission, of *Resource, summary, description string, filters []Param) Route {
	enum := "GroupBy"
	if !slices.Contains(of.Total.Groups, ByStatus) {
		enum = "GroupByWithoutStatus"
	}
	return Route{
		Path: "/v1/totals/" + list, Operation: "total" + operation, Group: "Totals", Permission: needs, Kind: Totals, Resource: of,
		Summary: summary,
		Description: description + " There is a row for each currency and for each of the values that group_by names. " +
			"All of it is of one position of the log, log_position. With Accept: text/csv it comes as CSV, with columns as a whole list has them.",
		Params: append(filters, Param{
			Name: "group_by", Form: FormGroups, Values: of.Total.Groups, Enum: enum, Example: of.Total.Groups[0] + "," + ByMonth,
			Description: "One or two of " + strings.Join(of.Total.Groups, ", ") + ", separated by a comma: a row for each of their values, in this order. Without it there is a row for each currency. " +
				"More than 10,000 rows are a 400: use a narrower filter.",
		}),
	}
}

// totalOf describes the rows of the totals of a resource. status is the field that its status is in.
func totalOf(name string, of *Resource, status string, total Total) *Resource {
	fields := []jsonform.FieldDescription{}
	for _, group := range total.Groups {
		f := jsonform.FieldDescription{Name: ByMonth, Form: domain.FormText, Example: `"2026-10"`}
		switch group {
		case ByStatus:
			f = *of.Field(status)
			f.Name = ByStatus
		case ByMonth:
		default:
			f = *of.Field(group)
		}
		f.Optional, f.Nullable = true, group != ByStatus
		f.Doc = "Only with group_by=" + group + ": " + groupDocs()[group]
		fields = append(fields, f)
	}
	fields = append(fields, *of.Field("currency"))
	for _, name := range total.Separated {
		fields = append(fields, *of.Field(name))
	}
	fields = append(fields, jsonform.FieldDescription{Name: "count", Form: domain.FormCount, Example: "29", Doc: "How many rows were added up."})
	for _, name := range total.Sums {
		f := *of.Field(name)
		f.Nullable, f.Doc = true, "Sum of "+name+"; null where no row has a value."
		if f.Form == domain.FormInteger {
			f.Form = domain.FormCount
		}
		if f.Example == "null" {
			f.Example = `"41.57"`
		}
		fields = append(fields, f)
	}
	return &Resource{
		Name: name + "Total", Table: of.Table, Fields: fields, Total: &total, LastDay: of.LastDay,
		Shown: of.Shown, ShownWithoutPay: of.ShownWithoutPay,
	}
}

func groupDocs() map[string]string {
	return map[string]string{
		ByClient:     "the client, with the name that it has now; null for rows without one.",
		ByContractor: "the contractor, with the name that it has now; null for rows without one.",
		ByMonth:      "the month, YYYY-MM: of period_start, date or work_date or, in UTC, of confirmed_at.",
		ByStatus:     "the status, that of invoices from client_billing_status.",
	}
}
