package manual

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// writer makes roff.
type writer struct{ bytes.Buffer }

func (w *writer) raw(line string) { fmt.Fprintln(w, line) }

// line writes text that is filled with what stands before and after it.
func (w *writer) line(text string) { w.raw(escape(strings.TrimSpace(text))) }

func (w *writer) macro(name string, args ...string) {
	line := "." + name
	for _, a := range args {
		line += ` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`
	}
	w.raw(line)
}

func (w *writer) section(title string) { w.macro("SH", title) }

// text writes a help text: paragraphs are filled, those with indented lines are shown
// as they are.
func (w *writer) text(help string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(help), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t") }) {
			w.macro("PP")
			w.literal(paragraph)
			continue
		}
		if i > 0 {
			w.macro("PP")
		}
		for _, l := range lines {
			w.line(l)
		}
	}
}

// literal shows lines as they are.
func (w *writer) literal(text string) {
	w.macro("nf")
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		w.raw(escape(strings.ReplaceAll(l, "\t", "    ")))
	}
	w.macro("fi")
}

// escape gives text that roff shows as it is, with hyphens that can be copied into a
// shell, in ASCII.
func escape(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case (r == '.' || r == '\'') && i == 0:
			b.WriteString(`\&` + string(r))
		case r == '\'':
			b.WriteString(`\(aq`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
