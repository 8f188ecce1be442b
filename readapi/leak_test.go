package readapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/access"
)

// canary is a value that only some may see.
type canary struct {
	text  string
	needs []access.Permission // nil: nobody may
}

func canaries() []canary {
	return []canary{
		{"70071.01", []access.Permission{access.InvoicesRead, access.PayRead}},          // an invoice's payout
		{"canary-pay-status", []access.Permission{access.InvoicesRead, access.PayRead}}, // its state
		{"70072.02", []access.Permission{access.InvoicesRead, access.MarginRead}},       // its margin
		{"7007.7003", []access.Permission{access.InvoicesRead, access.MarginRead}},
		{"canary-margin-note", []access.Permission{access.InvoicesRead, access.MarginRead}},
		{"canary-draft", nil},
		{"70073.03", []access.Permission{access.InvoicesRead, access.PayRead}}, // a charge's pay
		{"70074.04", []access.Permission{access.InvoicesRead, access.PayRead}},
		{"canary-unbilled", []access.Permission{access.InvoicesRead, access.PayRead}},
		{"canary-charge", []access.Permission{access.InvoicesRead}},
		{"70075.05", []access.Permission{access.TimeEntriesRead, access.PayRead}}, // a time entry's pay
		{"70076.06", []access.Permission{access.TimeEntriesRead, access.PayRead}},
		{"canary-entry-pay", []access.Permission{access.TimeEntriesRead, access.PayRead}},
		{"canary-entry", []access.Permission{access.TimeEntriesRead}},
		{"canary-payout-source", []access.Permission{access.PaymentsRead, access.PayRead}},
		{"canary-payment-source", []access.Permission{access.PaymentsRead}},
		{"canary-payout-number", []access.Permission{access.PayRead}}, // in payments and events
		{"canary-mail", []access.Permission{access.ClientsRead}},
		{"canary-title", []access.Permission{access.ContractorsRead}},
		{"canary-credit-note", []access.Permission{access.CreditsRead}},
		{"canary-foreign", nil},
		{"canary-internal", nil}, // not in events, and nowhere else
	}
}

// leaky are entries with the canaries in their places.
func leaky() []string {
	lines := []string{
		`"type":"client.recorded","data":{"client_id":"cl_1","name":"Client","contacts":[{"email":"canary-mail"}]}`,
		`"type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Contractor","title":"canary-title"}`,
		`"type":"invoice.recorded","data":{"invoice_id":"in_1","number":"I-1","client_id":"cl_1","contractor_id":"co_1","period":"2026-10","gross_amount":"10.00","currency":"EUR","contractor_pay_status":"canary-pay-status","payout_amount":"70071.01","margin_amount":"-70072.02","margin_percent":7007.7003,"margin_note":"canary-margin-note"}`,
		`"type":"invoice.recorded","data":{"invoice_id":"in_draft","number":"canary-draft","draft":true,"client_id":"cl_1","period":"2026-10","gross_amount":"10.00","currency":"EUR"}`,
		`"id":"ev_1","type":"invoice.issued","data":{"invoice_id":"in_1","invoice_number":"I-1","amount":"10.00"}`,
		`"type":"charge.created","data":{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-01","category":"canary-charge","kind":"b","amount":"1.00","currency":"EUR","period":"2026-10","pay_rate":"70073.03","pay_amount":"70074.04"}`,
		`"type":"charge.created","data":{"charge_id":"ch_hidden","client_id":"cl_1","date":"2026-10-01","category":"canary-unbilled","kind":"b","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}`,
		`"type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"canary-entry","hours":1,"period":"2026-10","currency":"EUR","pay_rate":"70075.05","pay_amount":"70076.06","pay_status":"canary-entry-pay"}`,
		`"type":"payment.confirmed","data":{"payment_id":"pm_1","client_id":"cl_1","amount":"10.00","currency":"EUR","source":"canary-payment-source"}`,
		`"id":"ev_payout","type":"payout.paid","data":{"payment_id":"pm_payout","contractor_id":"co_1","amount":"10.00","currency":"EUR","source":"canary-payout-source","invoice_number":"canary-payout-number"}`,
		`"type":"credit.topped_up","data":{"credit_id":"cr_1","client_id":"cl_1","amount":"1.00","currency":"EUR","note":"canary-credit-note"}`,
		`"id":"canary-internal","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Contractor","title":"canary-title"}`,
	}
	for i := range lines {
		lines[i] = `{"workspace_id":"acme",` + lines[i] + `}`
	}
	return lines
}

// TestNothingLeaks asks for everything with keys of many permission sets, in many
// ways, and looks for what each may not see in bodies, headers and the log.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(leaky()...)
	for _, line := range leaky() {
		foreign := strings.ReplaceAll(strings.Replace(line, `"acme"`, `"other"`, 1), `"Contractor"`, `"canary-foreign"`)
		foreign = strings.ReplaceAll(strings.ReplaceAll(foreign, `"Client"`, `"canary-foreign"`), `_1"`, `_foreign"`)
		s.append(foreign)
	}
	s.project("acme", 0)
	s.project("other", 0)
	sets := [][]access.Permission{allPermissions(), without(access.MarginRead), without(access.PayRead, access.MarginRead), {access.PayRead}, {access.PayRead, access.MarginRead}}
	for _, p := range allPermissions()[:7] {
		sets = append(sets, []access.Permission{p}, []access.Permission{p, access.PayRead}, without(p))
	}
	everything := s.key("acme", allPermissions()...)
	targets := leakTargets(s, everything)
	answers, seen := 0, map[string]bool{}
	for _, set := range sets {
		key, permissions := s.key("acme", set...), access.PermissionsOf(set...)
		for _, target := range targets {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost} {
				r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
				r.Header.Set("Authorization", "Bearer "+key)
				w := httptest.NewRecorder()
				s.api.ServeHTTP(w, r)
				answers++
				said := fmt.Sprint(w.Header()) + w.Body.String()
				for _, c := range canaries() {
					if !strings.Contains(said, c.text) {
						continue
					}
					seen[c.text] = true
					if !mayHear(permissions, c) {
						t.Errorf("%s %s with %s shows %s: %.300s", method, target, permissions, c.text, said)
					}
				}
				if w.Code >= 500 {
					t.Errorf("%s %s: %d", method, target, w.Code)
				}
			}
		}
	}
	for _, c := range canaries() {
		if c.needs != nil && !seen[c.text] {
			t.Errorf("%s was never shown to anyone: the test does not test it", c.text)
		}
		if strings.Contains(s.output.String(), c.text) {
			t.Errorf("the log holds %s", c.text)
		}
	}
	t.Logf("%d answers", answers)
}

func mayHear(has access.Permissions, c canary) bool {
	for _, p := range c.needs {
		if !has.Has(p) {
			return false
		}
	}
	return c.needs != nil
}

// leakTargets are addresses of everything: lists with filters, single rows, and
// requests that are wrong.
func leakTargets(s *stand, key string) []string {
	var targets []string
	for path, filters := range lists() {
		targets = append(targets, path, path+"?limit=1", path+"?limit=0", path+"?canary=1",
			path+"?limit=1&cursor="+*s.page(path+"?limit=1", key).NextCursor, path+"?cursor=x")
		for name, values := range filters {
			for _, v := range values {
				q := url.Values{name: {resolve(v, "cl_1", "co_1")}}
				targets = append(targets, path+"?"+q.Encode())
			}
		}
	}
	for path := range endpoints() {
		targets = append(targets, path, path+"?x=1", path+"/")
	}
	targets = append(targets, "/v1/invoices/in_draft", "/v1/charges/ch_hidden", "/v1/payments/pm_payout",
		"/v1/events/ev_payout", "/v1/events/canary-internal", "/v1/events?type=payout.paid")
	for path := range endpoints() {
		targets = append(targets, strings.Replace(path, "_1", "_foreign", 1))
	}
	return targets
}
