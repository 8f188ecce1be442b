package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
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
	Fields   table
	Inner    []inner
	Example  string
}

// inner has the fields of an object in a field, if they are not beside it.
type inner struct {
	table

	Of string // the field; with [] if it is an array
}

// table describes fields or parameters.
type table struct {
	Head string // of the first column
	Rows []row
}

// row describes a field or a parameter. The name of an inner object's field begins with the inner
// object's name, such as client.id.
type row struct{ ID, Name, Values, Needs, Meaning string }

// maxBeside is how many fields of an inner object are beside it.
const maxBeside = 2

// newObject describes an object with these fields.
func newObject(name, about string, fields []jsonform.FieldDescription, example string) (*object, error) {
	o := &object{ID: "object-" + strings.ReplaceAll(strings.ToLower(name), " ", "-"), Name: name, About: about, Fields: table{Head: "Field"}}
	o.Fields.Rows = o.rows("", fields)
	var err error
	o.Example, err = indent(example)
	return o, err
}

// objectOf describes the object that a route returns, or the rows of its list; nil if the route is
// described by its example alone.
func objectOf(r *route.Route) (*object, error) {
	switch {
	case r.Kind == route.Credit:
		return clientCredit(r)
	case r.Kind == route.KeyInfo:
		return newObject("Key information", "The key that makes the request: whose it is and what it may do.", keyFields(), openapi.Example(r))
	case r.Resource == nil:
		return nil, nil
	}
	label := r.Resource.Label()
	about := aboutResource(r.Resource.Name)
	switch {
	case r.Resource.Total != nil:
		about = "Sums over " + strings.ReplaceAll(path.Base(r.Path), "-", " ") + ": a row for each currency and for each of the values that group_by names."
	case about == "":
		return nil, fmt.Errorf("the reference: aboutResource does not say what %s is", r.Resource.Name)
	}
	return newObject(strings.ToUpper(label[:1])+label[1:], about, r.Resource.Fields, jsonform.ExampleOf(r.Resource.Fields))
}

// aboutResource says what a resource is.
func aboutResource(name string) string { return aboutResources[name] }

// aboutResources says what each resource is.
//
//nolint:gochecknoglobals,gosec // a constant table, which has no secret
var aboutResources = map[string]string{
	"Invoice":        "What a client is billed for a period: an invoice, a credit note or a package. The documents that were issued for it are in issued_invoices.",
	"Charge":         "An amount beside the time, such as materials or a fee.",
	"Payment":        "Money that the accounting system has confirmed: from a client, or to a contractor.",
	"TimeEntry":      "Work that was recorded.",
	"Contractor":     "Somebody who does the work.",
	"Client":         "Somebody the work is for.",
	"Credit":         "The credit of a client, without its history.",
	"CreditMovement": "A row of a credit's history, with its client.",
	"Event":          "Something that happened. It has ids only: what they stand for is read with your own key.",
}

// clientCredit describes a client's credit with a page of its history.
func clientCredit(r *route.Route) (*object, error) {
	fields := append(domain.CreditFields(),
		jsonform.FieldDescription{Name: "history", Form: domain.FormArray, Fields: domain.CreditMoveFields(), Doc: "A page of the movements, newest first."},
		jsonform.FieldDescription{Name: "has_more", Form: domain.FormBool, Doc: "Whether older movements are waiting behind next_cursor."},
		jsonform.FieldDescription{Name: "next_cursor", Form: domain.FormText, Doc: "Where the history goes on. Always given."},
	)
	return newObject("Client credit", "What a client has paid in advance, and how it was used. The history is a list, newest first.", fields, openapi.Example(r))
}

// keyFields describes what /v1/me returns.
func keyFields() []jsonform.FieldDescription {
	text := func(name, doc string) jsonform.FieldDescription {
		return jsonform.FieldDescription{Name: name, Form: domain.FormText, Doc: doc}
	}
	return []jsonform.FieldDescription{
		{Name: "company", Form: domain.FormObject, Doc: "The workspace that the key reads.", Fields: []jsonform.FieldDescription{
			{Name: "id", Form: domain.FormID, Doc: "Id of the workspace."}, text("name", "Name of the workspace."),
		}},
		{Name: "key", Form: domain.FormObject, Doc: "The key itself.", Fields: []jsonform.FieldDescription{
			text("name", "Name that people gave it."), text("prefix", "The public beginning of the key, by which the console shows it."),
		}},
		{Name: "scopes", Form: domain.FormArray, Doc: "Its permissions. They never change: make a new key for others."},
		{Name: "rate_limit_per_minute", Form: domain.FormCount, Doc: "Requests that it may make in a clock minute."},
	}
}

// indent formats a JSON example for people.
func indent(example string) (string, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(example), "", "  "); err != nil {
		return "", fmt.Errorf("indent an example: %w", err)
	}
	return b.String(), nil
}

// rows describes fields. All names begin with prefix. The fields of an inner object come after its
// field, or, if they are many, in a table of their own.
func (o *object) rows(prefix string, fields []jsonform.FieldDescription) []row {
	var list []row
	for i := range fields {
		f := &fields[i]
		name := prefix + f.Name
		list = append(list, row{ID: o.ID + "." + name, Name: name, Values: valuesOfField(f), Needs: string(openapi.PermissionOf(f.Part)), Meaning: openapi.FieldDescription(f)})
		if f.Form == domain.FormArray {
			name += "[]"
		}
		within := o.rows(name+".", f.Fields)
		if len(f.Fields) <= maxBeside {
			list = append(list, within...)
			continue
		}
		o.Inner = append(o.Inner, inner{table{Head: "Field", Rows: within}, name})
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
