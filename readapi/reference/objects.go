package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// object describes a kind of object that the API returns.
type object struct {
	ID, Name string // such as object-time-entry, Time entry
	About    string
	Fields   []field
	Example  string
}

// field describes a field of an object. The name of an inner object's field begins with the inner
// object's name, such as client.id.
type field struct{ Name, Values, Needs, Meaning string }

// resources returns the objects and their descriptions in the order in which they are shown.
func resources() []object {
	of := func(name, about string, fields []jsonform.FieldDescription) object {
		return object{ID: objectID(name), Name: name, About: about, Fields: appendFields(nil, "", fields), Example: jsonform.ExampleOf(fields)}
	}
	total := func(name, path string) object {
		table := route.Table()
		r := table[slices.IndexFunc(table, func(r route.Route) bool { return r.Path == path })]
		return of(name, "Sums over rows of a list: a row for each currency and for each of the values that group_by names.", r.Resource.Fields)
	}
	credit := of("Client credit", "What a client has paid in advance, and how it was used. The history is a list, newest first.", domain.CreditFields())
	credit.Fields = append(credit.Fields, field{Name: "history", Values: "array", Meaning: "A page of the movements, newest first."})
	credit.Fields = appendFields(credit.Fields, "history[].", domain.CreditMoveFields())
	credit.Fields = append(credit.Fields,
		field{Name: "has_more", Values: "true, false", Meaning: "Whether older movements are waiting behind next_cursor."},
		field{Name: "next_cursor", Values: "text", Meaning: "Where the history goes on. Always given."})
	credit.Example = strings.TrimSuffix(credit.Example, "}") + `,"history":[` + jsonform.ExampleOf(domain.CreditMoveFields()) + `],"has_more":false,"next_cursor":"q83vEjRWeJASNFZ4kBI0Vg"}`
	return []object{
		of("Invoice", "What a client is billed for a period: an invoice, a credit note or a package. The documents that were issued for it are in issued_invoices.", domain.InvoiceFields()),
		of("Charge", "An amount beside the time, such as materials or a fee.", domain.ChargeFields()),
		of("Payment", "Money that the accounting system has confirmed: from a client, or to a contractor.", domain.PaymentFields()),
		of("Time entry", "Work that was recorded.", domain.TimeEntryFields()),
		of("Contractor", "Somebody who does the work.", domain.ContractorFields()),
		of("Client", "Somebody the work is for.", domain.ClientFields()),
		credit,
		of("Credit", "The credit of a client, without its history.", domain.CreditRowFields()),
		of("Credit movement", "A row of a credit's history, with its client.", domain.CreditHistoryFields()),
		total("Invoice total", "/v1/totals/invoices"),
		total("Charge total", "/v1/totals/charges"),
		total("Time entry total", "/v1/totals/time-entries"),
		total("Payment total", "/v1/totals/payments"),
		of("Event", "Something that happened. It has ids only: what they stand for is read with your own key.", domain.EventFields()),
		of("Removed row", "Stands for a row that has left a list; shown only with include=removed.", domain.TombstoneFields()),
		keyInformation(),
	}
}

// keyInformation describes what /v1/me returns.
func keyInformation() object {
	const name = "Key information"
	return object{
		ID: objectID(name), Name: name, About: "The key that makes the request: whose it is and what it may do.",
		Fields: []field{
			{Name: "company", Values: "object", Meaning: "The workspace that the key reads."},
			{Name: "company.id", Values: "id", Meaning: "Id of the workspace."},
			{Name: "company.name", Values: "text", Meaning: "Name of the workspace."},
			{Name: "key", Values: "object", Meaning: "The key itself."},
			{Name: "key.name", Values: "text", Meaning: "Name that people gave it."},
			{Name: "key.prefix", Values: "text", Meaning: "The public beginning of the key, by which the console shows it."},
			{Name: "scopes", Values: "array", Meaning: "Its permissions. They never change: make a new key for others."},
			{Name: "rate_limit_per_minute", Values: "whole number", Meaning: "Requests that it may make in a clock minute."},
		},
		Example: openapi.Example(&route.Route{Kind: route.KeyInfo}),
	}
}

func objects() ([]object, error) {
	list := resources()
	for i := range list {
		var err error
		if list[i].Example, err = indent(list[i].Example); err != nil {
			return nil, fmt.Errorf("%s: %w", list[i].Name, err)
		}
	}
	return list, nil
}

// indent formats a JSON example for people.
func indent(example string) (string, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(example), "", "  "); err != nil {
		return "", fmt.Errorf("indent an example: %w", err)
	}
	return b.String(), nil
}

func objectID(name string) string {
	return "object-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
}

// objectOf returns the object that a route returns; nil if the route is described by its example
// alone.
func objectOf(r *route.Route) *object {
	name := "Client credit"
	switch {
	case r.Resource != nil:
		label := r.Resource.Label()
		name = strings.ToUpper(label[:1]) + label[1:]
	case r.Kind == route.KeyInfo:
		name = "Key information"
	case r.Kind != route.Credit: // such as routes that return no object
		return nil
	}
	return &object{ID: objectID(name), Name: name}
}

// appendFields adds fields, each followed by the fields of the object in it. All names begin with
// prefix.
func appendFields(list []field, prefix string, fields []jsonform.FieldDescription) []field {
	for i := range fields {
		f := &fields[i]
		shown := field{Name: prefix + f.Name, Values: valuesOfField(f), Needs: string(openapi.PermissionOf(f.Part)), Meaning: openapi.FieldDescription(f)}
		inner := shown.Name + "."
		if f.Form == domain.FormArray {
			inner = shown.Name + "[]."
		}
		list = appendFields(append(list, shown), inner, f.Fields)
	}
	return list
}

// valuesOfField says in a few words which values a field has; the guide "Forms of values"
// says more.
func valuesOfField(f *jsonform.FieldDescription) string {
	values := "text"
	switch f.Form {
	case domain.FormEnum:
		values = strings.Join(f.Values, ", ")
	case domain.FormID:
		values = "id"
	case domain.FormMoney, domain.FormSignedMoney:
		values = "money"
	case domain.FormCurrency:
		values = "currency"
	case domain.FormDate:
		values = "date"
	case domain.FormDateTime:
		values = "timestamp"
	case domain.FormPeriod:
		values = "period"
	case domain.FormHours, domain.FormNumber:
		values = "number"
	case domain.FormInteger, domain.FormCount:
		values = "whole number"
	case domain.FormBool:
		values = "true, false"
	case domain.FormObject:
		values = "object"
	case domain.FormArray:
		values = "array"
	case domain.FormText:
	}
	if f.Nullable {
		values += "; or null"
	}
	return values
}

// eventType is a type of event and where to read the object that it names.
type eventType struct {
	domain.EventTypeDescription

	Read    string // path of the object; empty: there is nothing to read
	Message string // an example, as JSON
}

func eventTypes() ([]eventType, error) {
	var list []eventType
	for _, t := range domain.EventTypes() {
		message, err := indent(exampleMessage(&t))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Type, err)
		}
		list = append(list, eventType{t, route.ReadOf(t.ObjectType), message})
	}
	return list, nil
}

// exampleMessage returns a message of an event type, with the ids that an entry of that type has.
func exampleMessage(t *domain.EventTypeDescription) string {
	data := `"in_1042","invoice_id":"in_1042","invoice_number":"INV-1042","client_id":"cl_4821"`
	switch t.ObjectType {
	case "credit_note":
		data = `"in_1043","invoice_id":"in_1043","invoice_number":"CN-1043","client_id":"cl_4821","period":"2026-10"`
	case "payout":
		data = `"pm_34","invoice_id":"in_1042","client_id":"cl_4821","contractor_id":"co_118"`
	case "time_entry":
		data = `"te_9000","invoice_id":"in_1042"`
	case "charge":
		data = `"ch_77","invoice_id":"in_1042","client_id":"cl_4821","period":"2026-10"`
	case "credit":
		data = `"cr_135","invoice_id":"in_1042","client_id":"cl_4821"`
	case "period":
		data = `"2026-10","period":"2026-10"`
	case "webhook":
		data = `"wh_7"`
	}
	return `{"id":"evt_0199a2f4c1e87b4f","type":"` + t.Type + `","created_at":"2026-10-02T09:15:00.120Z","data":{"object_type":"` + t.ObjectType + `","object_id":` + data + `}}`
}
