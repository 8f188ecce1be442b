package domain

import (
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// InvoiceFields describes a row of /v1/invoices.
func InvoiceFields() []jsonform.FieldDescription { return invoiceFields.Describe() }

// ChargeFields describes a row of /v1/charges.
func ChargeFields() []jsonform.FieldDescription { return chargeFields.Describe() }

// TimeEntryFields describes a row of /v1/time-entries.
func TimeEntryFields() []jsonform.FieldDescription { return timeEntryFields.Describe() }

// PaymentFields describes a row of /v1/payments.
func PaymentFields() []jsonform.FieldDescription { return paymentFields.Describe() }

// ClientFields describes a row of /v1/clients.
func ClientFields() []jsonform.FieldDescription { return clientFields.Describe() }

// ContractorFields describes a row of /v1/contractors.
func ContractorFields() []jsonform.FieldDescription { return contractorFields.Describe() }

// CreditFields describes a client's credit without its history.
func CreditFields() []jsonform.FieldDescription { return jsonform.Define(creditOwnFields).Describe() }

// CreditRowFields describes a row of /v1/credits.
func CreditRowFields() []jsonform.FieldDescription { return creditFields.Describe() }

// CreditMoveFields describes a row of a client's credit history.
func CreditMoveFields() []jsonform.FieldDescription { return creditMoveFields.Describe() }

// CreditHistoryFields describes a row of /v1/credit-history: a row of a client's history, plus the client
// after the id.
func CreditHistoryFields() []jsonform.FieldDescription {
	return slices.Insert(CreditMoveFields(), 1, CreditRowFields()[0])
}

// TombstoneFields describes a row that has left a list.
func TombstoneFields() []jsonform.FieldDescription { return tombstoneFields.Describe() }

// EventFields describes a row of /v1/events and the body of a webhook's
// message (docs/contract/log.md, "What the feed and webhooks show").
func EventFields() []jsonform.FieldDescription {
	return []jsonform.FieldDescription{
		{Name: "id", Form: FormID, Doc: "The same on every delivery; use it to recognise repeats.", Example: `"evt_0199a2f4c1e87b4f"`},
		{Name: "type", Form: FormEnum, Values: PublicTypes(), Doc: "What happened.", Example: `"invoice.paid"`},
		{Name: "created_at", Form: FormDateTime, Doc: "Publish time: when the event was put into the feed, which is in this order.", Example: `"2026-10-02T09:15:00.120Z"`},
		{
			Name: "data", Form: FormObject, Object: "EventData", Fields: eventDataFields(), Doc: "Ids only: object_type, object_id, and the ids that the producer gave; each type says which it always has." +
				" An event of an entry without effect, such as one about something unknown, is shown too, so its object may be a 404.",
			Example: `{"object_type":"invoice","object_id":"in_1042","invoice_id":"in_1042","invoice_number":"INV-1042","client_id":"cl_4821","period":"2026-10"}`,
		},
	}
}

// EventTypeDescription describes a public event type for documentation.
type EventTypeDescription struct {
	Type       string
	ObjectType string   // object_type of its data
	Pay        bool     // only for keys with pay:read
	When       string   // what the event reports, in sentences
	Always     []string // the ids that its data always has besides object_id; others are present if the producer gave them
}

// EventTypes describes the service's event types, in the order of the contract.
func EventTypes() []EventTypeDescription {
	var list []EventTypeDescription
	for _, k := range catalogue {
		if h := k.head(); h.public {
			list = append(list, EventTypeDescription{Type: h.name, ObjectType: h.object, Pay: h.pay, When: h.when, Always: h.always})
		}
	}
	return list
}

// EventMeanings lists the event types in Markdown, each with what it reports and the ids that it always
// has.
func EventMeanings() string {
	list := []string{"Something that happened. The types, with the ids that each always has besides object_id:", ""}
	for _, t := range EventTypes() {
		meaning := "- " + t.Type + ": " + t.When
		if len(t.Always) > 0 {
			meaning += " Always has " + strings.Join(t.Always, ", ") + "."
		}
		list = append(list, meaning)
	}
	return strings.Join(list, "\n")
}

func eventDataFields() []jsonform.FieldDescription {
	fields := []jsonform.FieldDescription{
		{Name: "object_type", Form: FormEnum, Values: publicObjects(), Doc: "What the event is about.", Example: `"invoice"`},
		{Name: "object_id", Form: FormText, Doc: "Its id; of a period, the period key.", Example: `"in_1042"`},
		{Name: "invoice_id", Form: FormID, Optional: true, Doc: "Invoice that it concerns. It may be a draft, which is a 404 until it is shown.", Example: `"in_1042"`},
		{Name: "invoice_number", Form: FormText, Optional: true, Doc: "Number of the issued document that it concerns.", Example: `"INV-1042"`},
		{Name: "client_id", Form: FormID, Optional: true, Doc: "Client that it concerns.", Example: `"cl_4821"`},
		{Name: "contractor_id", Form: FormID, Optional: true, Doc: "Contractor that it concerns.", Example: `"co_118"`},
		{Name: "period", Form: FormPeriod, Optional: true, Doc: "Billing period that it concerns.", Example: `"2026-10"`},
	}
	for i := range fields {
		if fields[i].Optional {
			fields[i].Doc += " Absent where the producer did not give it."
		}
	}
	return fields
}
