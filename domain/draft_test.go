package domain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

func TestDecodeDraftRefuses(t *testing.T) {
	t.Parallel()
	entry := func(typ, data string) string {
		return `{"workspace_id":"w","type":"` + typ + `","data":` + data + `}`
	}
	const client = `"client_id":"c","name":"n"`
	for name, c := range map[string]struct{ line, want string }{
		"not an object":      {`[1]`, "want an entry"},
		"nothing":            {``, "want an entry"},
		"text after":         {entry("test.ping", `{"webhook_id":"w"}`) + "x", "text after the value"},
		"unknown member":     {`{"workspace_id":"w","typ":"x","type":"test.ping","data":{"webhook_id":"w"}}`, "typ is not known"},
		"no type":            {`{"workspace_id":"w","data":{}}`, "type is missing"},
		"unknown type":       {entry("invoice.lost", `{}`), "type is not known: want one of the types that ledgerfeed types lists; did you mean invoice.sent?"},
		"verb of others":     {entry("invoice.created", `{}`), "types lists; the nearest is invoice.recorded"},
		"mistyped type":      {entry("invoice.payed", `{}`), "types lists; did you mean invoice.paid?"},
		"very long type":     {entry(strings.Repeat("x", 4096), `{}`), "types lists"},
		"null id":            {`{"workspace_id":"w","id":null,"type":"test.ping","data":{"webhook_id":"w"}}`, "id has the wrong form"},
		"long id":            {`{"workspace_id":"` + strings.Repeat("w", 65) + `","type":"test.ping","data":{"webhook_id":"w"}}`, "workspace_id has the wrong form"},
		"data no object":     {entry("test.ping", `[]`), "data has the wrong form"},
		"missing field":      {entry("client.recorded", `{"client_id":"c"}`), "data.name is missing"},
		"unknown field":      {entry("client.recorded", `{`+client+`,"colour":"red"}`), "data.colour is not known"},
		"twice":              {entry("client.recorded", `{`+client+`,"name":"m"}`), "data.name is given twice"},
		"null":               {entry("client.recorded", `{`+client+`,"plan_name":null}`), "data.plan_name has the wrong form"},
		"empty text":         {entry("client.recorded", `{`+client+`,"plan_name":""}`), "data.plan_name has the wrong form"},
		"control character":  {entry("client.recorded", `{`+client+`,"plan_name":"a\u0007"}`), "data.plan_name has the wrong form"},
		"C1 control":         {entry("client.recorded", `{`+client+`,"plan_name":"a\u0085"}`), "data.plan_name has the wrong form"},
		"half a pair":        {entry("client.recorded", `{`+client+`,"plan_name":"\ud83d"}`), "half a surrogate pair"},
		"bad UTF-8":          {entry("client.recorded", `{`+client+`,"plan_name":"`+"\xff"+`"}`), "not UTF-8"},
		"nested":             {entry("client.recorded", `{`+client+`,"contacts":[{"email":"e"},{"emial":"e"}]}`), "data.contacts[1].emial is not known"},
		"contacts no array":  {entry("client.recorded", `{`+client+`,"contacts":{}}`), "data.contacts has the wrong form"},
		"money as a number":  {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":1.00,"currency":"EUR"}`), "data.amount has the wrong form: want money"},
		"money, one decimal": {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":"1.0","currency":"EUR"}`), "data.amount has the wrong form"},
		"negative money":     {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":"-1.00","currency":"EUR"}`), "data.amount has the wrong form"},
		"13 digits":          {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":"1234567890123.00","currency":"EUR"}`), "data.amount has the wrong form"},
		"currency":           {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":"1.00","currency":"eur"}`), "data.currency has the wrong form"},
		"no such day":        {entry("credit.topped_up", `{"credit_id":"c","client_id":"c","amount":"1.00","currency":"EUR","date":"2026-02-29"}`), "data.date has the wrong form"},
		"no such week":       {entry("period.closed", `{"period":"2025-W53"}`), "data.period has the wrong form"},
		"no such pair":       {entry("period.closed", `{"period":"2025-BW27"}`), "data.period has the wrong form"},
		"leap second":        {entry("invoice.sent", `{"invoice_id":"i","sent_at":"2016-12-31T23:59:60Z"}`), "data.sent_at has the wrong form"},
		"no offset":          {entry("invoice.sent", `{"invoice_id":"i","sent_at":"2016-12-31T23:59:00"}`), "data.sent_at has the wrong form"},
		"wrong value":        {entry("invoice.recorded", `{"invoice_id":"i","number":"n","type":"credit_note","client_id":"c","period":"2026-10","gross_amount":"1.00","currency":"EUR"}`), "data.type has the wrong form: want one of invoice, package"},
		"five decimals":      {entry("credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":0.00001}`), "data.hours has the wrong form"},
		"negative hours":     {entry("credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":-1}`), "data.hours has the wrong form"},
		"hours as text":      {entry("credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":"1"}`), "data.hours has the wrong form"},
		"leading zero":       {entry("credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":01}`), "malformed number"},
		"boolean as text":    {entry("invoice.issued", `{"invoice_id":"i","invoice_number":"n","amount":"1.00","is_supplemental":"no"}`), "data.is_supplemental has the wrong form: want true or false"},
		"too long":           {entry("test.ping", `{"webhook_id":"w"`+strings.Repeat(" ", domain.MaxEntrySize)+`}`), "longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := domain.DecodeDraft([]byte(c.line))
			var de *domain.DraftError
			if !errors.As(err, &de) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a DraftError with %q", err, c.want)
			}
		})
	}
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typ, data, want string }{
		"order, references last, no space": {
			"time_entry.approved", ` { "period" : "2026-10", "client_id":"c", "time_entry_id": "t" } `,
			`{"time_entry_id":"t","client_id":"c","period":"2026-10"}`,
		},
		"no needless escapes": {
			"contractor.recorded", `{"contractor_id":"c","name":"\u00e9\/\ud83d\ude00<&>\u2028\"\\\n\t"}`,
			"{\"contractor_id\":\"c\",\"name\":\"é/😀<&>\u2028\\\"\\\\\\n\\t\"}",
		},
		"shortest numbers": {
			"credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":7.50e0}`,
			`{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":7.5}`,
		},
		"exponents and minus zero": {
			"credit.applied", `{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"0001.00","hours":-0e99999999999}`,
			`{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"0001.00","hours":0}`,
		},
		"UTC, cut to milliseconds": {
			"invoice.sent", `{"invoice_id":"i","sent_at":"2026-10-02T11:15:00.1209999+02:00"}`,
			`{"invoice_id":"i","sent_at":"2026-10-02T09:15:00.120Z"}`,
		},
		"nested objects, given empty": {
			"client.recorded", `{"client_id":"c","name":"n","contacts":[],"billing_address":{}}`,
			`{"client_id":"c","name":"n","billing_address":{},"contacts":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := domain.NewDraft("w", c.typ, []byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if d.Data != c.want {
				t.Errorf("got  %s\nwant %s", d.Data, c.want)
			}
			again, err := domain.NewDraft("w", c.typ, []byte(d.Data))
			if err != nil || again.Data != d.Data {
				t.Errorf("the canonical form is not a fixed point: %s, %v", again.Data, err)
			}
		})
	}
}
