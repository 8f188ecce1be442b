package label

import (
	"encoding/json"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// fields are the names of fields that do not say by themselves what they are.
var fields = map[string]string{
	"billed_to_client": "Billed to the client", "client_billing_status": "Billing status", "confirmed_at": "Confirmed",
	"contractor_pay_status": "Pay status", "credit_applied": "Credit used", "decline_outcome": "What has to come of it",
	"gross_amount": "Amount", "invoice_id": "Invoice", "is_flat_fee": "Flat fee", "is_supplemental": "Adds to an earlier document",
	"issued_at": "Issued", "issued_invoice_number": "Document number", "issued_invoices": "Documents", "net_due": "Left to pay",
	"package_id": "Package", "paid_at": "Paid", "payout_sent_to_payroll_at": "Sent to payroll", "period_label": "Period",
	"sent_at": "Sent", "source_invoice_id": "Credits the invoice",
}

// Field is the name of a field of a row or an entry, for people.
func Field(name string) string {
	if label := fields[name]; label != "" {
		return label
	}
	return firstUpper(strings.ReplaceAll(name, "_", " "))
}

func firstUpper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// nothing stands for a value that is not there.
const nothing = "—"

// Value writes a value, which is JSON, of a field for people, in lines. Moments stay in
// RFC 3339, for Moments.
func Value(name, value string) []string {
	switch {
	case value == "" || value == "null" || value == "[]":
		return []string{nothing}
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

// object writes a reference such as "Northwind (cl_4821)", and of other objects what is
// in them.
func object(value string) string {
	members, err := jsonform.Members(value)
	if err != nil {
		return value
	}
	if len(members) == 2 && members[0].Name == "id" && members[1].Name == "name" {
		id, name := Value("id", members[0].JSON)[0], Value("name", members[1].JSON)[0]
		if name == nothing {
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

// textOf writes a text: amounts with commas, and names of states in words.
func textOf(name, text string) string {
	switch {
	case isAmount(name):
		whole, rest, _ := strings.Cut(text, ".")
		for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		return whole + "." + rest
	case strings.HasSuffix(name, "status"), name == "direction", name == "decline_outcome", name == "kind", name == "type":
		return strings.ReplaceAll(text, "_", " ")
	}
	return text
}

// isAmount tells whether a field of this name is money.
func isAmount(name string) bool {
	switch name {
	case "net_due", "credit_applied", "balance", "general_credit", "amount_granted", "amount_remaining", "delivered_value", "recognized_revenue", "bill_rate", "pay_rate":
		return true
	}
	return strings.HasSuffix(name, "amount")
}
