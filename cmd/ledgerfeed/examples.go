package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// examples are the lines that the help texts show under "Examples", below the path of
// each command in brackets. A test runs them through the parser of the command line.
//
//go:embed examples.txt
var examples string

// addExamples gives the examples to the commands of a tree.
func addExamples(root *cobra.Command) {
	for section := range strings.SplitSeq(examples, "\n\n") {
		path, lines, _ := strings.Cut(strings.TrimPrefix(section, "["), "]\n")
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			panic("examples of a command that does not exist: " + path)
		}
		c.Example = "  " + strings.ReplaceAll(strings.TrimRight(lines, "\n"), "\n", "\n  ")
	}
}
