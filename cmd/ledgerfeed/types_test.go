package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestExamplesOfTypesAreAppended: what types shows as an entry is one, with and without --json-schema.
func TestExamplesOfTypesAreAppended(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	var types []struct {
		Type  string
		Event bool
	}
	var bundle struct {
		Defs map[string]struct{ Examples []json.RawMessage } `json:"$defs"`
	}
	parse := func(v any, args ...string) {
		if err := json.Unmarshal([]byte(succeed(t, url, append([]string{"types"}, args...)...)), v); err != nil {
			t.Fatal(err)
		}
	}
	parse(&types, "--json")
	parse(&bundle, "--json-schema")
	var lines strings.Builder
	for i, typ := range types {
		examples := bundle.Defs[typ.Type].Examples
		if len(examples) != 1 {
			t.Fatalf("%s has the examples %s", typ.Type, examples)
		}
		compact, err := json.Marshal(examples[0])
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(string(compact) + "\n")
		if i > 1 { // one with each way to show it is enough
			continue
		}
		var one struct {
			Type    string
			Example json.RawMessage
		}
		var schema struct{ Examples []json.RawMessage }
		parse(&one, typ.Type, "--json")
		parse(&schema, "--json-schema", typ.Type)
		if text := succeed(t, url, "types", typ.Type); one.Type != typ.Type || string(one.Example) != string(compact) || len(schema.Examples) != 1 || !strings.HasSuffix(text, "\n"+string(compact)+"\n") {
			t.Errorf("%s: the examples are %s, %s and in\n%s\nwant %s", typ.Type, one.Example, schema.Examples, text, compact)
		}
	}
	c := command(t, url, "append", "--check", "--create-workspace", "--json")
	c.Stdin = strings.NewReader(lines.String())
	var counts struct {
		WouldAppend int `json:"would_append"`
	}
	r := runCommand(t, c)
	if err := json.Unmarshal([]byte(r.out), &counts); err != nil || r.code != cli.ExitDone || counts.WouldAppend != len(types) || len(bundle.Defs) != len(types) {
		t.Errorf("%d types, %d schemas: %+v", len(types), len(bundle.Defs), r)
	}
}

func TestTypesAreShown(t *testing.T) {
	t.Parallel()
	list := succeed(t, "", "types")
	if !strings.Contains(list, "invoice.paid            yes    A document of the invoice, or each that is not voided, was paid.\n") || !strings.Contains(list, "client.recorded         -      A client was added or changed.\n") {
		t.Errorf("%s", list)
	}
	one := succeed(t, "", "types", "credit.topped_up")
	for _, want := range []string{
		"A client got credit, in a new package or in none.\nPublishes an event: -\n\nFIELD ",
		"\nworkspace_id             an id             yes       The workspace that the entry belongs to.\n",
		"\ndata.package.package_id  an id             yes       Id of the new package, unique for the client.\n",
		"\ndata.amount              money             yes       Amount that moves, without a sign: ",
		"\nmoney        a string of 1 to 12 digits, a point and 2 digits, such as \"420.00\"\n",
		"\na text       1 to 4096 characters without control characters",
		"can be forgotten: note\n",
	} {
		if !strings.Contains(one, want) {
			t.Errorf("%s\nlacks %q", one, want)
		}
	}
}
