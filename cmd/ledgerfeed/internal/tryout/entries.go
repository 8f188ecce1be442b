package tryout

import (
	"bytes"
	"fmt"
	"text/template"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// entry is an entry of the log; its data is a template of objects.
type entry struct{ name, data string }

type entries []entry

// objects are what the entries of one call are about: the ids end in a text of their own.
type objects struct {
	ID     string // the end of all ids
	Day    string // of the call
	Period string
}

func newObjects(id string, now time.Time) objects {
	day := now.UTC().Format(time.DateOnly)
	return objects{ID: id, Day: day, Period: day[:len("2026-10")]}
}

// party are the client and the contractor that all other entries are about.
func party() entries {
	return entries{
		{"client.recorded", `{"client_id":"cl_{{.ID}}","name":"Test client {{.ID}}"}`},
		{"contractor.recorded", `{"contractor_id":"co_{{.ID}}","name":"Test contractor {{.ID}}"}`},
	}
}

func invoice() entries {
	return append(party(), entry{"invoice.recorded", `{"invoice_id":"in_{{.ID}}","number":"TEST-{{.ID}}","client_id":"cl_{{.ID}}","contractor_id":"co_{{.ID}}","period":"{{.Period}}",
		"client_billing_status":"ready_to_send","gross_amount":"120.00","currency":"EUR","payout_amount":"80.00"}`})
}

func issued() entries {
	return append(invoice(), entry{"invoice.issued", `{"invoice_id":"in_{{.ID}}","invoice_number":"TEST-{{.ID}}","client_id":"cl_{{.ID}}","amount":"120.00"}`})
}

func timeEntry() entries {
	return append(party(), entry{"time_entry.recorded", `{"time_entry_id":"te_{{.ID}}","work_date":"{{.Day}}","client_id":"cl_{{.ID}}","contractor_id":"co_{{.ID}}","service":"Testing",
		"hours":1.5,"period":"{{.Period}}","currency":"EUR","bill_rate":"80.00","bill_amount":"120.00","pay_rate":"50.00","pay_amount":"75.00"}`})
}

func charge() entries {
	return append(party(), entry{"charge.created", `{"charge_id":"ch_{{.ID}}","client_id":"cl_{{.ID}}","contractor_id":"co_{{.ID}}","date":"{{.Day}}","category":"materials","kind":"service_fee",
		"amount":"20.00","currency":"EUR","period":"{{.Period}}"}`})
}

func credit() entries {
	return append(issued(),
		entry{"credit.topped_up", `{"credit_id":"cr_{{.ID}}_1","client_id":"cl_{{.ID}}","amount":"50.00","currency":"EUR"}`},
		entry{"credit.applied", `{"credit_id":"cr_{{.ID}}_2","client_id":"cl_{{.ID}}","invoice_id":"in_{{.ID}}","invoice_number":"TEST-{{.ID}}","amount":"30.00"}`})
}

// leadingTo returns the entries that an event of a type needs, and the event as the last.
func leadingTo(name string) entries {
	document := `{"invoice_id":"in_{{.ID}}","invoice_number":"TEST-{{.ID}}","client_id":"cl_{{.ID}}"}`
	switch name {
	case "invoice.issued":
		return issued()
	case "invoice.sent", "invoice.voided", "invoice.reversed":
		return append(issued(), entry{name, document})
	case "invoice.paid":
		return append(issued(), entry{"invoice.sent", document}, entry{name, document})
	case "credit_note.issued":
		return append(issued(), entry{name, `{"invoice_id":"cn_{{.ID}}","invoice_number":"CN-{{.ID}}","client_id":"cl_{{.ID}}","period":"{{.Period}}","amount":"20.00","currency":"EUR",
			"kind":"post_payment","source_invoice_id":"in_{{.ID}}"}`})
	case "payout.paid":
		return append(issued(),
			entry{"payout.sent_to_payroll", `{"invoice_id":"in_{{.ID}}"}`},
			entry{name, `{"payment_id":"pm_{{.ID}}","invoice_id":"in_{{.ID}}","client_id":"cl_{{.ID}}","contractor_id":"co_{{.ID}}","amount":"80.00","currency":"EUR","source":"test"}`})
	case "time_entry.approved", "time_entry.declined", "time_entry.deleted":
		return append(timeEntry(), entry{name, `{"time_entry_id":"te_{{.ID}}","client_id":"cl_{{.ID}}","contractor_id":"co_{{.ID}}"}`})
	case "charge.created":
		return charge()
	case "charge.deleted":
		return append(charge(), entry{name, `{"charge_id":"ch_{{.ID}}","client_id":"cl_{{.ID}}"}`})
	case "credit.applied":
		return credit()
	case "credit.taken_back":
		return append(credit(), entry{name, `{"credit_id":"cr_{{.ID}}_3","client_id":"cl_{{.ID}}","invoice_id":"in_{{.ID}}","invoice_number":"TEST-{{.ID}}","amount":"10.00"}`})
	case "period.closed": // for the client alone
		return append(invoice(), entry{name, `{"period":"{{.Period}}","client_id":"cl_{{.ID}}"}`})
	}
	return nil
}

func (list entries) types() []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	return names
}

// drafts are the entries about some objects.
func (list entries) drafts(workspaceID string, about objects) ([]domain.Draft, error) {
	var drafts []domain.Draft
	for _, e := range list {
		parsed, err := template.New(e.name).Parse(e.data)
		if err != nil {
			return nil, fmt.Errorf("the data of %s: %w", e.name, err)
		}
		var data bytes.Buffer
		if err := parsed.Execute(&data, about); err != nil {
			return nil, fmt.Errorf("the data of %s: %w", e.name, err)
		}
		draft, err := domain.NewDraft(workspaceID, e.name, data.Bytes())
		if err != nil {
			return nil, fmt.Errorf("the data of %s: %w", e.name, err)
		}
		drafts = append(drafts, draft)
	}
	return drafts, nil
}
