package label

import (
	"encoding/json"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Field is the name of a field of a row or an entry, for people.
func Field(name string) string {
	switch name {
	case "billed_to_client":
		return "Billed to the client"
	case "client_billing_status":
		return "Billing status"
	case "confirmed_at":
		return "Confirmed"
	case "contractor_pay_status":
		return "Pay status"
	case "credit_applied":
		return "Credit used"
	case "decline_outcome":
		return "What has to come of it"
	case "gross_amount":
		return "Amount"
	case "invoice_id":
		return "Invoice"
	case "is_flat_fee":
		return "Flat fee"
	case "is_supplemental":
		return "Adds to an earlier document"
	case "issued_at":
		return "Issued"
	case "issued_invoice_number":
		return "Document number"
	case "issued_invoices":
		return "Documents"
	case "net_due":
		return "Left to pay"
	case "package_id":
		return "Package"
	case "paid_at":
		return "Paid"
	case "payout_sent_to_payroll_at":
		return "Sent to payroll"
	case "period_label":
		return "Period"
	case "sent_at":
		return "Sent"
	case "source_invoice_id":
		return "Credits the invoice"
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
