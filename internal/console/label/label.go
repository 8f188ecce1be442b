// Package label has the words and formats of the console's pages: what a
// permission opens, what an event means, how a number or a moment is written.
package label

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Permission explains what a permission opens (docs/contract/service.md,
// "Authentication", 6).
func Permission(p access.Permission) string {
	switch p {
	case access.InvoicesRead:
		return "Invoices and charges, with what clients are billed"
	case access.TimeEntriesRead:
		return "Time entries, with what clients are billed"
	case access.ClientsRead:
		return "Clients and their contacts"
	case access.CreditsRead:
		return "Credit of each client: balance, packages, history"
	case access.ContractorsRead:
		return "Contractors: name, email, title, status"
	case access.PaymentsRead:
		return "Confirmed payments from clients"
	case access.EventsRead:
		return "The feed of events of the last 30 days"
	case access.PayRead:
		return "Adds what contractors are paid: rates, amounts, payouts"
	case access.MarginRead:
		return "Adds margins to invoices; needs pay:read"
	}
	return ""
}

// PermissionPaths are the addresses that a permission opens, or adds fields to.
func PermissionPaths(p access.Permission) string {
	switch p {
	case access.InvoicesRead:
		return "/v1/invoices, /v1/charges"
	case access.TimeEntriesRead:
		return "/v1/time-entries"
	case access.ClientsRead:
		return "/v1/clients"
	case access.CreditsRead:
		return "/v1/clients/{id}/credit"
	case access.ContractorsRead:
		return "/v1/contractors"
	case access.PaymentsRead:
		return "/v1/payments"
	case access.EventsRead:
		return "/v1/events"
	case access.PayRead:
		return "more fields in /v1/invoices, /v1/charges, /v1/time-entries, /v1/payments, /v1/events"
	case access.MarginRead:
		return "more fields in /v1/invoices"
	}
	return ""
}

// Sensitive tells whether a permission shows pay or margins.
func Sensitive(p access.Permission) bool { return p == access.PayRead || p == access.MarginRead }

// PermissionsOf are those of a key that shows what a person may see: all, or all but those
// that show pay or margins.
func PermissionsOf(seesPay bool) access.Permissions {
	var list []access.Permission
	for _, p := range access.AllPermissions() {
		if seesPay || !Sensitive(p) {
			list = append(list, p)
		}
	}
	return access.PermissionsOf(list...)
}

// Event explains when an event of a type is published.
func Event(typ string) string {
	switch typ {
	case "invoice.issued":
		return "A document of an invoice was issued"
	case "invoice.sent":
		return "An invoice was sent to the client"
	case "invoice.paid":
		return "An invoice was paid"
	case "invoice.voided":
		return "A document of an invoice was voided"
	case "invoice.reversed":
		return "An invoice was reversed"
	case "credit_note.issued":
		return "A credit note was issued"
	case "payout.paid":
		return "A contractor was paid"
	case "time_entry.approved":
		return "A time entry was approved"
	case "time_entry.declined":
		return "A time entry was declined"
	case "time_entry.deleted":
		return "A time entry was deleted"
	case "charge.created":
		return "A charge was added"
	case "charge.deleted":
		return "A charge was deleted"
	case "credit.applied":
		return "Credit was used for an invoice"
	case "credit.taken_back":
		return "Used credit was taken back"
	case "period.closed":
		return "A billing period was closed"
	case domain.TypeTestPing:
		return "A test was sent from this console"
	}
	return ""
}

// EventGroup is event types that belong together.
type EventGroup struct {
	Name  string
	Types []string
}

// EventGroups are the event types that a webhook can choose, by subject. The
// test is not among them, because every webhook gets it.
func EventGroups() []EventGroup {
	names := map[string]string{
		"invoice": "Invoices", "credit_note": "Invoices", "payout": "Payouts", "time_entry": "Time entries", "charge": "Charges",
		"credit": "Client credit", "period": "Periods",
	}
	groups := []EventGroup{{Name: "Invoices"}, {Name: "Time entries"}, {Name: "Charges"}, {Name: "Payouts"}, {Name: "Client credit"}, {Name: "Periods"}, {Name: "Others"}}
	for _, typ := range domain.PublicTypes() {
		if typ == domain.TypeTestPing {
			continue
		}
		subject, _, _ := strings.Cut(typ, ".")
		i := slices.IndexFunc(groups, func(g EventGroup) bool { return g.Name == names[subject] })
		if i < 0 {
			i = len(groups) - 1
		}
		groups[i].Types = append(groups[i].Types, typ)
	}
	return slices.DeleteFunc(groups, func(g EventGroup) bool { return len(g.Types) == 0 })
}

// Outcome names an outcome of attempts.
func Outcome(o attempt.Outcome) string {
	switch o {
	case attempt.OutcomeSuccess:
		return "Succeeded"
	case attempt.OutcomeAnswered:
		return "Answered with an error"
	case attempt.OutcomeTimeout:
		return "No answer in time"
	case attempt.OutcomeUnreachable:
		return "Could not connect"
	case attempt.OutcomeTLS:
		return "Certificate or TLS error"
	case attempt.OutcomeBlocked:
		return "Address not public"
	case attempt.OutcomeBroken:
		return "Answer cut off"
	}
	return string(o)
}

// Badge is the look of a state: good, bad, wait, warn or quiet.
func Badge(state any) string {
	switch fmt.Sprint(state) {
	case "live", "on", string(policy.Succeeded):
		return "good"
	case "revoked", "off", string(policy.Failed):
		return "bad"
	case "paused", string(policy.Pending):
		return "wait"
	case "failing":
		return "warn"
	}
	return "quiet"
}

// Flash is the message about what was done before the browser was redirected to a
// page. The address holds only its name, so that no link can put text on a page.
func Flash(name string) string {
	switch name {
	case "key-revoked":
		return "The key was revoked. It stops working everywhere within a second."
	case "key-renamed":
		return "The key was renamed."
	case "webhook-saved":
		return "Saved. The change applies to everything that is sent from now on."
	case "webhook-deleted":
		return "The webhook was deleted."
	case "webhook-on":
		return "The webhook is on again. It gets events from now on. “Send missed events” sends earlier ones."
	case "webhook-paused":
		return "The webhook is paused. What is being sent right now still arrives."
	case "webhook-resumed":
		return "The webhook is resumed. What has waited is being sent, in order."
	case "missed":
		return "The missed events are being sent."
	case "nothing-missed":
		return "There was nothing to send."
	case "acknowledged":
		return "Acknowledged. The list shows them only together with all acknowledged ones."
	case "sent-again":
		return "The delivery is being sent again."
	case "retried":
		return "The next attempt is being made now."
	case "several-sent-again":
		return "The deliveries that you selected are being sent again."
	case "some-sent-again":
		return "Of the deliveries that you selected, those that had failed or were cancelled are being sent again. The others were pending or had succeeded."
	case "none-sent-again":
		return "Nothing was sent again. Select deliveries that have failed or were cancelled."
	case "settings-saved":
		return "Saved."
	case "test-mail":
		return "A test mail is on its way. If it has not arrived in a few minutes, ask the operator of this service to look at the log."
	case "signed-out":
		return "You are signed out."
	}
	return ""
}
