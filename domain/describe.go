package domain

import (
	"reflect"
	"strings"
)

// FieldDescription tells readers of the API what a field of an answer is. It
// is made from the same definition that writes the field.
type FieldDescription struct {
	Name     string
	Form     Form
	Part     Part
	Nullable bool
	Optional bool     // may be absent whatever the permissions: an event's data alone
	Values   []string // FormEnum: all values
	Known    []string // FormText: values that occur
	Doc      string
	Example  string // as JSON

	Object string             // FormObject, FormArray: the name of what is inside
	Fields []FieldDescription // FormObject, FormArray: its fields
}

// Words says which values the form takes.
func (f Form) Words() string { return f.words() }

// described is a composite that can tell what it holds.
type described interface {
	describe() (object string, fields []FieldDescription)
}

func (o object[R]) describe() (string, []FieldDescription) { return typeName[R](), describe(o.fields) }
func (a array[R]) describe() (string, []FieldDescription)  { return typeName[R](), describe(a.fields) }

func (p *Party) describe() (string, []FieldDescription) {
	return "PartyReference", []FieldDescription{
		{Name: "id", Form: FormID, Example: `"cl_4821"`},
		{Name: "name", Form: FormText, Nullable: true, Doc: "Null until the party is recorded.", Example: `"Northwind Clinic"`},
	}
}

func typeName[R any]() string { return reflect.TypeFor[R]().Name() }

func describe[R any](fields []Field[R]) []FieldDescription {
	list := make([]FieldDescription, len(fields))
	for i := range fields {
		f := &fields[i]
		list[i] = FieldDescription{
			Name: f.Name, Form: f.Form, Part: f.Part, Nullable: f.Nullable,
			Values: f.Values, Known: f.Known, Doc: f.Doc, Example: f.Example,
		}
		if f.at == nil {
			continue
		}
		if c, ok := f.at(new(R)).(described); ok {
			list[i].Object, list[i].Fields = c.describe()
		}
		if list[i].Example == "" {
			list[i].Example = exampleOf(&list[i])
		}
	}
	return list
}

// exampleOf puts together the example of an object or array.
func exampleOf(f *FieldDescription) string {
	if len(f.Fields) == 0 {
		return "null"
	}
	example := ExampleOf(f.Fields)
	if f.Form == FormArray {
		return "[" + example + "]"
	}
	return example
}

// ExampleOf is the example of an object with these fields, as JSON.
func ExampleOf(fields []FieldDescription) string {
	members := make([]string, len(fields))
	for i := range fields {
		members[i] = `"` + fields[i].Name + `":` + fields[i].Example
	}
	return "{" + strings.Join(members, ",") + "}"
}

// InvoiceFields describes a row of /v1/invoices.
func InvoiceFields() []FieldDescription { return describe(invoiceFields) }

// ChargeFields describes a row of /v1/charges.
func ChargeFields() []FieldDescription { return describe(chargeFields) }

// TimeEntryFields describes a row of /v1/time-entries.
func TimeEntryFields() []FieldDescription { return describe(timeEntryFields) }

// PaymentFields describes a row of /v1/payments.
func PaymentFields() []FieldDescription { return describe(paymentFields) }

// ClientFields describes a row of /v1/clients.
func ClientFields() []FieldDescription { return describe(clientFields) }

// ContractorFields describes a row of /v1/contractors.
func ContractorFields() []FieldDescription { return describe(contractorFields) }

// CreditFields describes a client's credit without its history.
func CreditFields() []FieldDescription { return describe(creditFields) }

// CreditMoveFields describes a row of a client's credit history.
func CreditMoveFields() []FieldDescription { return describe(creditMoveFields) }

// EventFields describes a row of /v1/events and the body of a webhook's
// message (docs/contract/log.md, "What the feed and webhooks show").
func EventFields() []FieldDescription {
	return []FieldDescription{
		{Name: "id", Form: FormID, Doc: "The same on every delivery; use it to recognise repeats.", Example: `"evt_0199a2f4c1e87b4f"`},
		{Name: "type", Form: FormEnum, Values: PublicTypes(), Example: `"invoice.paid"`},
		{Name: "created_at", Form: FormDateTime, Doc: "Publish time.", Example: `"2026-10-02T09:15:00.120Z"`},
		{
			Name: "data", Form: FormObject, Object: "EventData", Fields: eventDataFields(), Doc: "Ids only; only those that apply.",
			Example: `{"object_type":"invoice","object_id":"in_1042","invoice_id":"in_1042","invoice_number":"INV-1042","client_id":"cl_4821","period":"2026-10"}`,
		},
	}
}

func eventDataFields() []FieldDescription {
	return []FieldDescription{
		{Name: "object_type", Form: FormEnum, Values: publicObjects(), Doc: "What the event is about.", Example: `"invoice"`},
		{Name: "object_id", Form: FormText, Doc: "Its id; of a period, the period key.", Example: `"in_1042"`},
		{Name: "invoice_id", Form: FormID, Optional: true, Example: `"in_1042"`},
		{Name: "invoice_number", Form: FormText, Optional: true, Example: `"INV-1042"`},
		{Name: "client_id", Form: FormID, Optional: true, Example: `"cl_4821"`},
		{Name: "contractor_id", Form: FormID, Optional: true, Example: `"co_118"`},
		{Name: "period", Form: FormPeriod, Optional: true, Example: `"2026-10"`},
	}
}

// publicObjects lists the object types of public events, each once.
func publicObjects() []string {
	var list []string
	seen := map[string]bool{}
	for _, t := range catalogue {
		if t.Public && !seen[t.Object] {
			seen[t.Object] = true
			list = append(list, t.Object)
		}
	}
	return list
}
