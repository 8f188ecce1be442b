// This file has the words and formats of the console's pages: what a permission allows, what an
// event means, how to write a number or a time.

package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Permission explains what a permission allows (docs/contract/service.md,
// "Authentication", 6).
func Permission(p access.Permission) string { return permissions[p] }

// permissions has what each permission allows.
//
//nolint:gochecknoglobals // a constant table
var permissions = map[access.Permission]string{
	access.InvoicesRead:    "Invoices and charges, with what clients are billed",
	access.TimeEntriesRead: "Time entries, with what clients are billed",
	access.ClientsRead:     "Clients and their contacts",
	access.CreditsRead:     "Credit of each client: balance, packages, history",
	access.ContractorsRead: "Contractors: name, email, title, status",
	access.PaymentsRead:    "Confirmed payments from clients",
	access.EventsRead:      "The feed of events of the last 30 days",
	access.PayRead:         "Adds what contractors are paid: rates, amounts, payouts",
	access.MarginRead:      "Adds margins to invoices; needs pay:read",
}

// PermissionPaths returns the API paths that a permission opens, or adds fields to.
func PermissionPaths(p access.Permission) string { return permissionPaths[p] }

// permissionPaths has the paths of each permission.
//
//nolint:gochecknoglobals // a constant table
var permissionPaths = map[access.Permission]string{
	access.InvoicesRead:    "/v1/invoices, /v1/charges, /v1/totals/invoices, /v1/totals/charges",
	access.TimeEntriesRead: "/v1/time-entries, /v1/totals/time-entries",
	access.ClientsRead:     "/v1/clients",
	access.CreditsRead:     "/v1/credits, /v1/clients/{id}/credit, /v1/credit-history",
	access.ContractorsRead: "/v1/contractors",
	access.PaymentsRead:    "/v1/payments, /v1/totals/payments",
	access.EventsRead:      "/v1/events",
	access.PayRead:         "more fields in /v1/invoices, /v1/charges, /v1/time-entries, /v1/payments, /v1/events, /v1/totals/…",
	access.MarginRead:      "more fields in /v1/invoices, /v1/totals/invoices",
}

// Sensitive reports whether a permission shows pay or margins.
func Sensitive(p access.Permission) bool { return p == access.PayRead || p == access.MarginRead }

// PermissionsOf returns the permissions of a key that shows what a person may see: all, or all
// except those that show pay or margins.
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
func Event(typ string) string { return eventMeanings[typ] }

// eventMeanings says when an event of each type is published.
//
//nolint:gochecknoglobals,gosec // a constant table, which has no secret
var eventMeanings = map[string]string{
	"invoice.issued":      "A document of an invoice was issued",
	"invoice.sent":        "An invoice was sent to the client",
	"invoice.paid":        "An invoice was paid",
	"invoice.voided":      "A document of an invoice was voided",
	"invoice.reversed":    "An invoice was reversed",
	"credit_note.issued":  "A credit note was issued",
	"payout.paid":         "A contractor was paid",
	"time_entry.approved": "A time entry was approved",
	"time_entry.declined": "A time entry was declined",
	"time_entry.deleted":  "A time entry was deleted",
	"charge.created":      "A charge was added",
	"charge.deleted":      "A charge was deleted",
	"credit.applied":      "Credit was used for an invoice",
	"credit.taken_back":   "Used credit was taken back",
	"period.closed":       "A billing period was closed",
	domain.TypeTestPing:   "A test was sent from this console",
}

// EventGroup holds event types that belong together.
type EventGroup struct {
	Name  string
	Types []string
}

// EventGroups returns the event types that a webhook can choose, by subject. The test event is not
// among them, because every webhook gets it.
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

// Outcome describes the outcome of an attempt.
func Outcome(o attempt.Outcome) string { return cmp.Or(outcomes[o], string(o)) }

// outcomes has a label for each outcome.
//
//nolint:gochecknoglobals // a constant table
var outcomes = map[attempt.Outcome]string{
	attempt.OutcomeSuccess:     "Succeeded",
	attempt.OutcomeAnswered:    "Answered with an error",
	attempt.OutcomeTimeout:     "No answer in time",
	attempt.OutcomeUnreachable: "Could not connect",
	attempt.OutcomeTLS:         "Certificate or TLS error",
	attempt.OutcomeBlocked:     "Address not public",
	attempt.OutcomeBroken:      "Answer cut off",
}

// Badge returns the look of a state: good, bad, wait, warn or quiet.
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

// Flash returns the message about what was done before the browser was redirected to a page. The
// address holds only the name of the message, so that no link can put text on a page.
func Flash(name string) string { return flashes[name] }

// flashes has the messages, by name.
//
//nolint:gochecknoglobals // a constant table
var flashes = map[string]string{
	"key-revoked":        "The key was revoked. It stops working everywhere within a second.",
	"key-renamed":        "The key was renamed.",
	"webhook-saved":      "Saved. The change applies to everything that is sent from now on.",
	"webhook-deleted":    "The webhook was deleted.",
	"webhook-on":         "The webhook is on again. It gets events from now on. “Send what was missed” sends earlier ones.",
	"webhook-paused":     "The webhook is paused. Messages already on their way still arrive.",
	"webhook-resumed":    "The webhook is resumed. Waiting messages are being sent, starting with the oldest.",
	"missed":             "The missed events are being sent.",
	"recovered":          "What waited and what failed is being sent, the oldest first.",
	"nothing-missed":     "There was nothing to send.",
	"acknowledged":       "Acknowledged. To see them again, show acknowledged ones too.",
	"sent-again":         "The delivery is being sent again.",
	"retried":            "The next attempt is being made now.",
	"several-sent-again": "The deliveries that you selected are being sent again.",
	"some-sent-again":    "Of the deliveries that you selected, the failed and cancelled ones are being sent again. The others were pending or had succeeded.",
	"none-sent-again":    "Nothing was sent again. Select deliveries that have failed or were cancelled.",
	"forgotten":          "The deletion has begun. Names and texts are gone from every page and answer within a few seconds.",
	"settings-saved":     "Saved.",
	"test-mail":          "A test mail is on its way. If it has not arrived in a few minutes, ask the operator of this service to look at the log.",
	"signed-out":         "You are signed out.",
}

// Change says what an event of a type changes (docs/contract/log.md, "Catalogue").
func Change(typ string) string { return eventChanges[typ] }

// eventChanges says what an event of each type changes.
//
//nolint:gochecknoglobals // a constant table
var eventChanges = map[string]string{
	"invoice.issued":      "Adds the document to the invoice, and its number to those of the invoice's time entries and charges that had none.",
	"invoice.sent":        "Marks the document as sent; if the event names none, every issued document. The invoice, unless it is paid, and its approved time entries and charges become sent too.",
	"invoice.paid":        "Marks the document as paid; if the event names none, every document that is not voided. When all are paid, the invoice and its approved or sent time entries and charges become paid too.",
	"invoice.voided":      "Marks the document as voided and takes its number from time entries and charges. When no other document is left, the invoice is ready to send again, and its sent or paid time entries and charges are approved again.",
	"invoice.reversed":    "Marks the invoice as reversed.",
	"credit_note.issued":  "Adds the credit note to the invoices.",
	"payout.paid":         "Adds the payment. Where it names an invoice, the contractor is paid for that invoice and for their time entries on it.",
	"period.closed":       "Closes the period, for every client or for one. Its invoices say so.",
	"time_entry.approved": "Sets the time entry's status to approved, and its invoice if the event names one.",
	"time_entry.declined": "Sets the time entry's status to declined, with what is to happen next (its decline outcome).",
	"time_entry.deleted":  "Takes the time entry out of the lists.",
	"charge.created":      "Adds the charge.",
	"charge.deleted":      "Takes the charge out of the lists.",
	"credit.applied":      "Takes the amount from the client's credit. Less of the invoice is due after credit.",
	"credit.taken_back":   "Gives the amount back to the client's credit. More of the invoice is due after credit.",
	domain.TypeTestPing:   "Changes nothing: it is a test.",
}

// Rows returns a number of rows of a resource in words, such as "2 time entries".
func Rows(resource string, n int) string {
	switch resource {
	case "time-entries":
		return Plural(n, "time entry", "time entries")
	case "credit":
		return Plural(n, "client's credit", "clients' credits")
	}
	return Plural(n, resource[:len(resource)-1], resource)
}

// Count writes a number with commas between thousands.
func Count(n int64) string { return Digits(strconv.FormatInt(n, 10)) }

// Digits puts commas between the thousands of a whole number.
func Digits(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns a number with its noun, such as "1 event" or "2 events".
func Plural(n any, one, many string) string {
	var count int64
	switch n := n.(type) {
	case int:
		count = int64(n)
	case int64:
		count = n
	}
	return Count(count) + " " + texts.Plural(count, one, many)
}

// When says how far t is from now, in one unit, and from a week on which day it is. The script of
// the pages says the same.
func When(now, t time.Time) string {
	const (
		week   = 7 * 24 * time.Hour
		skewed = 5 * time.Second // clocks of other processes may be ahead
	)
	d := now.Sub(t)
	switch {
	case -skewed < d && d < time.Minute:
		return "now"
	case 0 < d && d < week:
		return inOneUnit(d) + " ago"
	case -week < d && d < 0:
		return "in " + inOneUnit(-d)
	case now.UTC().Year() == t.UTC().Year():
		return t.UTC().Format("2 Jan")
	}
	return t.UTC().Format("2 Jan 2006")
}

// inOneUnit writes a duration in minutes, hours or days, rounded down, but at least a minute.
func inOneUnit(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return Count(max(1, int64(d/time.Minute))) + " min"
	case d < day:
		return Count(int64(d/time.Hour)) + " h"
	}
	return Plural(int64(d/day), "day", "days")
}

// Millis writes a duration given in milliseconds.
func Millis(ms int64) string {
	if ms < 1000 {
		return Count(ms) + " ms"
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

// Bytes writes a size given in bytes.
func Bytes(n int64) string {
	if n < 1024 {
		return Plural(n, "byte", "bytes")
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}

// Sentence turns the text of an error into a sentence.
func Sentence(s string) string {
	if s == "" {
		return s
	}
	return firstUpper(s) + "."
}

// IndentJSON formats JSON for reading. Text that is not JSON stays as it is.
func IndentJSON(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// Part is a piece of a text: words, or a time.
type Part struct {
	Text string
	At   time.Time // zero: Text holds words
}

var momentPattern = regexp.MustCompile(`\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)

// Moments splits a text at its times, so that a page can show them in the reader's zone.
func Moments(text string) []Part {
	var parts []Part
	done := 0
	for _, found := range momentPattern.FindAllStringIndex(text, -1) {
		at := moment(text[found[0]:found[1]])
		if at.IsZero() {
			continue // it only looks like a time
		}
		if found[0] > done {
			parts = append(parts, Part{Text: text[done:found[0]]})
		}
		parts, done = append(parts, Part{At: at}), found[1]
	}
	if done < len(text) {
		parts = append(parts, Part{Text: text[done:]})
	}
	return parts
}

// moment parses a time as webhook notices and the audit trail write it; zero: it is not a time.
func moment(text string) time.Time {
	for _, layout := range []string{"2 January 2006, 15:04 UTC", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// Field returns the label of a field of a row or an entry.
func Field(name string) string {
	return cmp.Or(fields[name], firstUpper(strings.ReplaceAll(name, "_", " ")))
}

// fields has the labels that are not the name itself.
//
//nolint:gochecknoglobals // a constant table
var fields = map[string]string{
	"billed_to_client":          "Billed to the client",
	"client_billing_status":     "Status",
	"confirmed_at":              "Confirmed",
	"contractor_pay_status":     "Pay status",
	"credit_applied":            "Credit used",
	"decline_outcome":           "Required outcome",
	"gross_amount":              "Amount",
	"id":                        "ID",
	"invoice_id":                "Invoice ID",
	"is_flat_fee":               "Flat fee",
	"is_supplemental":           "Supplement",
	"issued_at":                 "Issued",
	"issued_invoice_number":     "Document number",
	"issued_invoices":           "Documents",
	"net_due":                   "After credit",
	"package_id":                "Package",
	"paid_at":                   "Paid",
	"payout_sent_to_payroll_at": "Sent to payroll",
	"period_label":              "Period",
	"sent_at":                   "Sent",
	"source_invoice_id":         "Credits the invoice",
	"updated_at":                "Updated",
}

func firstUpper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Nothing stands for a missing value.
const Nothing = "—"

// Value writes the JSON value of a field for people, as lines. Times stay in RFC 3339, for Moments.
func Value(name, value string) []string {
	switch {
	case value == "" || value == "null" || value == "[]":
		return []string{Nothing}
	case value == "true":
		return []string{"yes"}
	case value == "false":
		return []string{"no"}
	case strings.HasPrefix(value, `"`):
		var text string
		if json.Unmarshal([]byte(value), &text) == nil {
			return []string{textOf(name, text)}
		}
	case strings.HasPrefix(value, "{"):
		return []string{object(value)}
	case strings.HasPrefix(value, "["):
		var list []json.RawMessage
		if json.Unmarshal([]byte(value), &list) != nil {
			break
		}
		var lines []string
		for _, one := range list {
			lines = append(lines, Value(name, string(one))...)
		}
		return lines
	}
	return []string{value}
}

// object writes a reference such as "Northwind (cl_4821)", and lists the members of any other
// object.
func object(value string) string {
	members, err := jsonform.Members(value)
	if err != nil {
		return value
	}
	if len(members) == 2 && members[0].Name == "id" && members[1].Name == "name" {
		id, name := Value("id", members[0].JSON)[0], Value("name", members[1].JSON)[0]
		if name == Nothing {
			return id
		}
		return name + " (" + id + ")"
	}
	var parts []string
	for _, m := range members {
		if m.JSON != "null" && m.JSON != "false" {
			parts = append(parts, Field(m.Name)+" "+strings.Join(Value(m.Name, m.JSON), ", "))
		}
	}
	return strings.Join(parts, " · ")
}

// textOf writes a text value: amounts with commas, and state names as words.
func textOf(name, text string) string {
	switch {
	case isAmount(name):
		whole, rest, _ := strings.Cut(text, ".")
		return Digits(whole) + "." + rest
	case strings.HasSuffix(name, "status"), name == "direction", name == "decline_outcome", name == "kind", name == "type":
		return strings.ReplaceAll(text, "_", " ")
	}
	return text
}

// isAmount reports whether a field with this name holds money.
func isAmount(name string) bool {
	switch name {
	case "net_due", "credit_applied", "balance", "general_credit", "amount_granted", "amount_remaining", "delivered_value", "recognized_revenue", "bill_rate", "pay_rate":
		return true
	}
	return strings.HasSuffix(name, "amount")
}
