package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

func typesCommand(env *operate.Env) *cobra.Command {
	var names []string
	for _, t := range domain.EntryTypes() {
		names = append(names, t.Type)
	}
	var schema bool
	c := &cobra.Command{
		Use:   "types [TYPE]",
		Short: "Show the entry types that append takes, or the fields of one",
		Long: `Show the entry types that append takes, or the fields of one type.

With --json-schema, the command writes JSON Schema 2020-12: of the entries of TYPE, or of
all types together. A running API serves the latter at /docs/entries.schema.json. What a
schema cannot say, append --check finds.`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: env.Run(func(_ context.Context, args []string) error {
			list := domain.EntryTypes()
			if len(args) > 0 {
				list = slices.DeleteFunc(list, func(t domain.EntryTypeDescription) bool { return t.Type != args[0] })
			}
			switch {
			case len(list) == 0:
				return cli.Usagef("there is no entry type %q: ledgerfeed types lists all%s", args[0], texts.DidYouMean(args[0], names))
			case schema:
				text, err := openapi.EntrySchema(list...)
				if err == nil {
					_, err = fmt.Fprintf(env.Out, "%s", text)
				}
				return err
			case len(args) == 0:
				return env.Print(viewsOf(list), func(w io.Writer) error { return printTypes(w, list) })
			}
			t := &list[0]
			view := detailedType{viewsOf(list)[0], fieldViews("", t.Members), json.RawMessage(t.Example())}
			return env.Print(view, func(w io.Writer) error { return printType(w, t, view.Fields) })
		}),
	}
	c.Flags().BoolVar(&schema, "json-schema", false, "write JSON Schema instead")
	return c
}

// typeView is an entry type in a list.
type typeView struct {
	Type    string `json:"type"`
	Meaning string `json:"meaning"`
	Event   bool   `json:"event"`
}

func viewsOf(list []domain.EntryTypeDescription) (views []typeView) {
	for _, t := range list {
		views = append(views, typeView{t.Type, t.Meaning, t.Public})
	}
	return views
}

// detailedType is one entry type.
type detailedType struct {
	typeView

	Fields  []fieldView     `json:"fields"`
	Example json.RawMessage `json:"example"`
}

// fieldView is a field of an entry. Its name begins with the names of the objects around it.
type fieldView struct {
	Name     string   `json:"name"`
	Form     string   `json:"form"`
	Values   []string `json:"values,omitempty"`
	Required bool     `json:"required"`
	Meaning  string   `json:"meaning"`
}

func fieldViews(path string, fields []jsonform.FieldDescription) (list []fieldView) {
	for i := range fields {
		f := &fields[i]
		name, inside := path+f.Name, path+f.Name+"."
		if f.Form == domain.FormArray {
			inside = name + "[]."
		}
		list = append(list, fieldView{name, f.Form.Description(), f.Values, f.Required, f.Doc})
		list = append(list, fieldViews(inside, f.Fields)...)
	}
	return list
}

func printTypes(w io.Writer, list []domain.EntryTypeDescription) error {
	err := cli.Table(w, "TYPE\tEVENT\tMEANING", list, func(t *domain.EntryTypeDescription) string {
		first, _, _ := strings.Cut(t.Meaning, ". ")
		return fmt.Sprintf("%s\t%s\t%s.", t.Type, yes(t.Public), strings.TrimSuffix(first, "."))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "\nAn entry with EVENT publishes an event of its own type. ledgerfeed types TYPE shows the fields.")
	return err
}

func printType(w io.Writer, t *domain.EntryTypeDescription, fields []fieldView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\nPublishes an event: %s\n\nFIELD\tFORM\tREQUIRED\tMEANING\n", t.Meaning, yes(t.Public))
	var forms []string
	for _, f := range fields {
		form, values, long := strings.Cut(f.Form, ": ")
		if f.Values != nil {
			form = strings.Join(f.Values, "|")
		} else if line := form + "\t" + values; long && !slices.Contains(forms, line) {
			forms = append(forms, line)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Name, form, yes(f.Required), f.Meaning)
	}
	fmt.Fprintf(table, "\nFORM\tVALUES\n%s\n", strings.Join(forms, "\n"))
	if len(t.Detached) > 0 {
		fmt.Fprintf(table, "\nKept next to the log, so that a person can be forgotten: %s\n", strings.Join(t.Detached, ", "))
	}
	fmt.Fprintf(table, "\nThe shortest entry:\n%s\n", t.Example())
	if err := table.Flush(); err != nil {
		return fmt.Errorf("cannot write the type: %w", err)
	}
	return nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "-"
}
