// Package manual writes the manual pages of the program, in roff, from the same
// commands and flags that the help texts show.
package manual

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
)

// Page is a manual page of section 1.
type Page struct {
	Name string // of its file, such as ledgerfeed-key-create.1
	Text []byte // roff, ASCII alone
}

// Pages returns a page for root and for every command below it that is not hidden. They
// are dated as the program's commit, so that the same commit gives the same bytes; a
// program that does not know its commit gives pages without a date.
func Pages(root *cobra.Command, program buildinfo.Info) []Page {
	list := []Page{{Name: dashed(root) + ".1", Text: render(root, program)}}
	for _, c := range described(root) {
		list = append(list, Pages(c, program)...)
	}
	return list
}

// described lists the commands below c that have a page.
func described(c *cobra.Command) (list []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			list = append(list, sub)
		}
	}
	return list
}

// dashed is the name of a command's page: ledgerfeed-key-create.
func dashed(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func render(c *cobra.Command, program buildinfo.Info) []byte {
	w := &writer{}
	date := ""
	if t, err := time.Parse(time.RFC3339, program.Date); err == nil {
		date = t.UTC().Format(time.DateOnly)
	}
	// Readers of roff want the hyphens of a date as they are.
	w.raw(`.TH "` + escape(strings.ToUpper(dashed(c))) + `" "1" "` + date + `" "` + escape(c.Root().Name()+" "+program.Version) + `" "Ledgerfeed"`)
	w.section("NAME")
	w.line(dashed(c) + " - " + c.Short)
	w.section("SYNOPSIS")
	w.macro("B", c.CommandPath())
	w.line(strings.TrimPrefix(c.UseLine(), c.CommandPath()))
	w.section("DESCRIPTION")
	if c.Long != "" {
		w.text(c.Long)
	} else {
		w.text(c.Short + ".")
	}
	w.commands(c)
	w.flags("OPTIONS", c.NonInheritedFlags())
	w.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		w.section("EXAMPLES")
		w.literal(c.Example)
	}
	w.section("EXIT STATUS")
	w.line("0: done. 1: failed. 2: wrong usage.")
	w.seeAlso(c)
	return w.Bytes()
}

// commands lists the commands below c.
func (w *writer) commands(c *cobra.Command) {
	list := described(c)
	if len(list) == 0 {
		return
	}
	w.section("COMMANDS")
	for _, sub := range list {
		w.macro("TP")
		w.macro("BR", dashed(sub), "(1)")
		w.line(sub.Short + ".")
	}
}

func (w *writer) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	w.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		w.macro("TP")
		value, usage := pflag.UnquoteUsage(f)
		name := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + name
		}
		if value != "" {
			name += ` \fI` + escape(value) + `\fR`
		}
		w.raw(name)
		if !slices.Contains([]string{"", "0", "false", "[]", "0s"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", strings.Trim(f.DefValue, "[]"))
		}
		w.line(usage)
	})
}

// seeAlso names the page of the command above, and those of its other commands.
func (w *writer) seeAlso(c *cobra.Command) {
	if !c.HasParent() {
		return
	}
	w.section("SEE ALSO")
	list := []*cobra.Command{c.Parent()}
	if c.Parent().HasParent() {
		list = append(list, described(c.Parent())...)
	}
	list = slices.DeleteFunc(list, func(other *cobra.Command) bool { return other == c })
	for i, other := range list {
		end := "(1),"
		if i == len(list)-1 {
			end = "(1)"
		}
		w.macro("BR", dashed(other), end)
	}
}
