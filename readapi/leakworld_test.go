package readapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// canary is a value that only some keys may see.
type canary struct {
	text    string
	readers []access.Permissions // each of these is enough; none: no key may see it
}

// mayBeSeenBy reports whether a key with these permissions may see the canary.
func (c canary) mayBeSeenBy(has access.Permissions) bool {
	for _, enough := range c.readers {
		if has&enough == enough {
			return true
		}
	}
	return false
}

func canaries() []canary {
	list := []canary{
		{text: "canary-draft"},        // an invoice that is a draft
		{text: "canary-deleted"},      // a charge and a time entry that were deleted
		{text: "canary-foreign"},      // anything of another workspace
		{text: "canary-internal"},     // the id of an entry that is no event
		{text: "canary-old-event"},    // an event past its retention
		{text: "canary-unseen-event"}, // an event above the visible position
		{text: "canary-unprojected"},  // what that event brings
		{text: "canary-key-name"},     // the name of a key that was revoked
	}
	needs := func(permissions []access.Permission, texts ...string) {
		for _, text := range texts {
			list = append(list, canary{text, []access.Permissions{access.PermissionsOf(permissions...)}})
		}
	}
	type all = []access.Permission
	needs(all{access.InvoicesRead, access.PayRead}, "canary-pay-status", "70071.01", "2026-10-17T07:07:07.070Z")
	needs(all{access.InvoicesRead, access.PayRead, access.MarginRead}, "70072.02", "7007.7003", "canary-margin-note")
	needs(all{access.InvoicesRead, access.PayRead}, "70073.03", "70074.04", "canary-unbilled") // of charges
	needs(all{access.TimeEntriesRead, access.PayRead}, "70075.05", "70076.06", "canary-entry-pay")
	needs(all{access.PaymentsRead, access.PayRead}, "canary-payout-source", "70077.07")
	needs(all{access.EventsRead, access.PayRead}, "canary-of-no-bill")
	needs(all{access.InvoicesRead}, "canary-charge", "canary-plan")
	needs(all{access.TimeEntriesRead}, "canary-entry")
	needs(all{access.PaymentsRead}, "canary-payment-source")
	needs(all{access.ClientsRead}, "canary-mail")
	needs(all{access.ContractorsRead}, "canary-title")
	needs(all{access.CreditsRead}, "canary-credit-note")
	return append(list, canary{"canary-payout-number", []access.Permissions{
		access.PermissionsOf(access.PaymentsRead, access.PayRead), access.PermissionsOf(access.EventsRead, access.PayRead),
	}})
}

// leakRows is how many rows of each kind there are: enough for answers that are
// compressed, and for several pages.
const leakRows = 4

// leaky are entries of a workspace that hold the canaries: those that are projected, and
// those that are not yet.
func leaky(workspaceID string, now time.Time) (projected, waiting []string) {
	projected = append(projected, `"id":"ev_old","type":"invoice.reversed","created_at":"`+domain.FormatTime(now.AddDate(0, 0, -40))+
		`","data":{"invoice_id":"canary-old-event"}`)
	for i := 1; i <= leakRows; i++ {
		for _, line := range leakyRows() {
			projected = append(projected, strings.ReplaceAll(line, "@", fmt.Sprint(i)))
		}
	}
	projected = append(projected, leakyOnce()...)
	waiting = []string{
		`"id":"w1","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Contractor","title":"canary-unprojected"}`,
		`"id":"ev_unseen","type":"invoice.reversed","data":{"invoice_id":"canary-unseen-event"}`,
	}
	for _, lines := range [][]string{projected, waiting} {
		for i := range lines {
			lines[i] = fmt.Sprintf(`{"workspace_id":%q,%s}`, workspaceID, lines[i])
		}
	}
	return projected, waiting
}

// leakyRows are one row of each kind; @ is its number.
func leakyRows() []string {
	const about = `"client_id":"cl_1","period":"2026-10","currency":"EUR"`
	return []string{
		`"id":"a@","type":"client.recorded","data":{"client_id":"cl_@","name":"Client","contacts":[{"email":"canary-mail"}]}`,
		`"id":"b@","type":"contractor.recorded","data":{"contractor_id":"co_@","name":"Contractor","title":"canary-title"}`,
		`"id":"c@","type":"invoice.recorded","data":{"invoice_id":"in_@","number":"I-@","contractor_id":"co_1","plan_name":"canary-plan","gross_amount":"10.00",` +
			`"contractor_pay_status":"canary-pay-status","payout_amount":"70071.01","margin_amount":"-70072.02","margin_percent":7007.7003,"margin_note":"canary-margin-note",` + about + `}`,
		`"id":"ev_@","type":"invoice.issued","data":{"invoice_id":"in_@","invoice_number":"I-@","amount":"10.00"}`,
		`"id":"d@","type":"charge.created","data":{"charge_id":"ch_@","date":"2026-10-01","category":"canary-charge","kind":"b","amount":"1.00",` +
			`"pay_rate":"70073.03","pay_amount":"70074.04",` + about + `}`,
		`"id":"ev_unbilled_@","type":"charge.created","data":{"charge_id":"ch_hidden_@","date":"2026-10-01","category":"canary-unbilled","kind":"b","billed_to_client":false,"amount":"1.00","invoice_number":"canary-of-no-bill",` + about + `}`,
		`"id":"f@","type":"time_entry.recorded","data":{"time_entry_id":"te_@","work_date":"2026-10-01","contractor_id":"co_1","service":"canary-entry","hours":1,` +
			`"pay_rate":"70075.05","pay_amount":"70076.06","pay_status":"canary-entry-pay",` + about + `}`,
		`"id":"g@","type":"payment.confirmed","data":{"payment_id":"pm_@","client_id":"cl_1","amount":"10.00","currency":"EUR","source":"canary-payment-source"}`,
		`"id":"ev_payout_@","type":"payout.paid","data":{"payment_id":"pm_payout_@","contractor_id":"co_1","amount":"70077.07","currency":"EUR","source":"canary-payout-source","invoice_number":"canary-payout-number"}`,
		`"id":"h@","type":"credit.topped_up","data":{"credit_id":"cr_@","client_id":"cl_1","amount":"1.00","currency":"EUR","note":"canary-credit-note"}`,
	}
}

// leakyOnce are rows that no key may see, and fields that only a further entry fills.
func leakyOnce() []string {
	const about = `"client_id":"cl_1","period":"2026-10","currency":"EUR"`
	return []string{
		`"id":"i1","type":"invoice.recorded","data":{"invoice_id":"in_draft","number":"canary-draft","draft":true,"gross_amount":"10.00",` + about + `}`,
		`"id":"i2","type":"payout.sent_to_payroll","data":{"invoice_id":"in_2","sent_at":"2026-10-17T07:07:07.070Z"}`,
		`"id":"i3","type":"charge.created","data":{"charge_id":"ch_deleted","date":"2026-10-01","category":"canary-deleted","kind":"b","amount":"1.00",` + about + `}`,
		`"id":"i4","type":"charge.deleted","data":{"charge_id":"ch_deleted"}`,
		`"id":"ev_unbilled_deleted","type":"charge.deleted","data":{"charge_id":"ch_hidden_2","invoice_number":"canary-of-no-bill","billed_to_client":false}`,
		`"id":"i5","type":"time_entry.recorded","data":{"time_entry_id":"te_deleted","work_date":"2026-10-01","contractor_id":"co_1","service":"canary-deleted","hours":1,` + about + `}`,
		`"id":"i6","type":"time_entry.deleted","data":{"time_entry_id":"te_deleted"}`,
		`"id":"canary-internal","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Contractor","title":"canary-title"}`,
	}
}

// leakWorld is a stand with canaries in the workspace acme, and with another workspace
// of which no key here may see anything. With blind, everything that these permissions
// may not see has other values.
func leakWorld(t testing.TB, now time.Time, blind access.Permissions) *stand {
	t.Helper()
	s := newStand(t)
	s.contract = nil // answers are compared, not judged
	s.clock.Set(now)
	others := strings.NewReplacer(otherValues(blind)...)
	for _, w := range []string{"acme", "other"} {
		projected, waiting := leaky(w, now)
		for _, lines := range [][]string{projected, waiting} {
			for i := range lines {
				if w == "other" {
					lines[i] = foreign(lines[i])
				}
				lines[i] = others.Replace(lines[i])
			}
		}
		s.append(projected...)
		s.project(w, 0)
		s.buildTrees(w)
		s.append(waiting...)
	}
	return s
}

// foreign turns a line into one of another workspace, with texts that no key here may see
// and similar ids.
func foreign(line string) string {
	line = strings.NewReplacer(`"Contractor"`, `"canary-foreign"`, `"Client"`, `"canary-foreign"`, `"I-`, `"canary-foreign-`, `"canary-plan"`, `"canary-foreign"`).Replace(line)
	for _, id := range []string{"in_", "ch_", "te_", "pm_", "cl_", "co_", "ev_"} {
		line = strings.ReplaceAll(line, `"`+id, `"`+id+"foreign_")
	}
	return line
}

// otherValues are pairs of a canary that a key may not see and another value of
// the same form.
func otherValues(blind access.Permissions) []string {
	if blind == 0 {
		return nil
	}
	var pairs []string
	for _, c := range canaries() {
		if c.mayBeSeenBy(blind) || c.text == "canary-old-event" { // its hash stays in the tree, which has the whole history
			continue
		}
		other := "another-" + c.text[7:]
		switch {
		case strings.HasSuffix(c.text, "Z"):
			other = "2026-01-02T00:00:00.001Z"
		case c.text[0] == '7':
			other = "1.50"
		}
		pairs = append(pairs, `"`+c.text+`"`, `"`+other+`"`, `"-`+c.text+`"`, `"-`+other+`"`, `:`+c.text+`,`, `:`+other+`,`)
	}
	return pairs
}

// TestEveryProtectedFieldHasACanary: the definitions of the fields say which need a
// permission, so that a new one cannot be forgotten here.
func TestEveryProtectedFieldHasACanary(t *testing.T) {
	t.Parallel()
	s := leakWorld(t, leakTime(), 0)
	key := s.key("acme", allPermissions()...)
	for _, r := range route.Table() {
		if r.Kind != route.Rows {
			continue
		}
		values := map[string]string{}
		for _, row := range s.page(r.Path, key).Data {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(row, &members); err != nil {
				t.Fatal(err)
			}
			for name, value := range members {
				values[name] += string(value)
			}
		}
		for _, f := range r.Resource.Fields {
			if f.Part != domain.Base && !hasCanary(values[f.Name]) {
				t.Errorf("no canary in %s of %s: %s", f.Name, r.Path, values[f.Name])
			}
		}
	}
}

func hasCanary(text string) bool {
	for _, c := range canaries() {
		if strings.Contains(text, c.text) {
			return true
		}
	}
	return false
}

// leakTime is the time of the tests: a fixed one, so that two worlds have the same
// history.
func leakTime() time.Time { return time.Date(2026, 11, 3, 10, 20, 30, 0, time.UTC) }
