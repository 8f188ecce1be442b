package reference

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markdown writes the content of a page as Markdown. link returns the address of a link; empty: only
// its text is written.
func markdown(main *html.Node, link func(href string) string) string {
	m := marker{link, strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", `\<`)}
	return strings.Join(m.blocks(main), "\n\n") + "\n"
}

type marker struct {
	link   func(href string) string
	escape *strings.Replacer
}

// blocks writes what is in a node: paragraphs, lists and so on.
func (m marker) blocks(parent *html.Node) (list []string) {
	var text strings.Builder // of neighbours that are no blocks
	end := func() {
		if s := strings.TrimSpace(text.String()); s != "" {
			list = append(list, s)
		}
		text.Reset()
	}
	for n := range parent.ChildNodes() {
		if n.Type == html.TextNode || slices.Contains([]atom.Atom{atom.A, atom.B, atom.Br, atom.Code, atom.Em, atom.Span, atom.Strong}, n.DataAtom) {
			text.WriteString(m.inline(n))
			continue
		}
		end()
		switch n.DataAtom {
		case atom.H1, atom.H2, atom.H3, atom.H4:
			level, _ := strconv.Atoi(n.Data[1:])
			list = append(list, strings.Repeat("#", level)+" "+m.text(n))
		case atom.P:
			list = append(list, m.text(n))
		case atom.Summary:
			list = append(list, "**"+m.text(n)+"**")
		case atom.Ul, atom.Ol:
			list = append(list, m.list(n))
		case atom.Table:
			list = append(list, m.table(n))
		case atom.Pre:
			list = append(list, "```"+fence(attribute(n, "data-language"))+"\n"+strings.TrimSpace(raw(n))+"\n```")
		default:
			inner := m.blocks(n)
			if attribute(n, "role") == "note" { // a box
				inner = []string{"> " + strings.ReplaceAll(strings.Join(inner, "\n\n"), "\n", "\n> ")}
			}
			list = append(list, inner...)
		}
	}
	end()
	return list
}

// list writes a list.
func (m marker) list(n *html.Node) string {
	var items []string
	for item := range n.ChildNodes() {
		if item.DataAtom != atom.Li {
			continue
		}
		mark := "- "
		if n.DataAtom == atom.Ol {
			mark = strconv.Itoa(len(items)+1) + ". "
		}
		text := strings.Join(m.blocks(item), "\n\n")
		items = append(items, mark+strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(mark))))
	}
	return strings.Join(items, "\n")
}

// table writes a table, whose first row is its head.
func (m marker) table(n *html.Node) string {
	var b strings.Builder
	head := true
	for row := range n.Descendants() {
		if row.DataAtom != atom.Tr {
			continue
		}
		columns := 0
		for cell := range row.ChildNodes() {
			if cell.Type == html.ElementNode {
				columns++
				b.WriteString("| " + strings.ReplaceAll(m.text(cell), "|", `\|`) + " ")
			}
		}
		b.WriteString("|\n")
		if head {
			b.WriteString(strings.Repeat("|---", columns) + "|\n")
		}
		head = false
	}
	return strings.TrimSpace(b.String())
}

// text writes what is in a node on one line.
func (m marker) text(parent *html.Node) string {
	var b strings.Builder
	for n := range parent.ChildNodes() {
		b.WriteString(m.inline(n))
	}
	return strings.TrimSpace(b.String())
}

func (m marker) inline(n *html.Node) string {
	if n.Type == html.TextNode {
		return m.escape.Replace(oneLine(n.Data))
	}
	switch text := m.text(n); n.DataAtom {
	case atom.Code:
		return "`" + plain(n) + "`"
	case atom.Strong, atom.B:
		return "**" + text + "**"
	case atom.Em:
		return "*" + text + "*"
	case atom.A:
		if address := m.link(attribute(n, "href")); address != "" {
			return "[" + text + "](" + address + ")"
		}
		return text
	default:
		return text
	}
}

// fence names a language as after the fence of a code block.
func fence(language string) string {
	switch language {
	case "curl":
		return "sh"
	case "Node.js":
		return "js"
	}
	return strings.ToLower(language)
}

// indexed is a page in the index of the search.
type indexed struct {
	Path  string     `json:"p"` // its address
	Title string     `json:"t"`
	Words string     `json:"w"` // that are in its text and in few others
	Parts [][]string `json:"m"` // each the id of a part, its name, and the names of its fields or parameters
}

// index makes the index of the search.
func index(pages []*Page, address func(string) string) []indexed {
	list := make([]indexed, len(pages))
	words, in := make([][]string, len(pages)), map[string]int{} // of each page, and in how many a word is
	for i, p := range pages {
		list[i] = indexed{Path: address(p.Path), Title: p.Title, Parts: partsOf(p.main)}
		if p.Path == "" {
			continue // its text is about the others
		}
		words[i] = wordsOf(p.main)
		for _, word := range words[i] {
			in[word]++
		}
	}
	for i, p := range pages {
		most := 15 // pages that have a word of this one, for the word to lead here
		if p.menu == objectsMenu {
			most = 3 // their fields and parameters are parts
		}
		list[i].Words = strings.Join(slices.DeleteFunc(words[i], func(word string) bool { return in[word] > most }), " ")
	}
	return list
}

// partsOf returns the parts of a page that have an id.
func partsOf(main *html.Node) (list [][]string) {
	for n := range main.Descendants() {
		id := attribute(n, "id")
		switch heading, cell := find(n, atom.H2), find(n, atom.Td); {
		case id == "":
		case heading != nil:
			list = append(list, []string{id, plain(heading)})
		case cell != nil:
			if code := find(cell, atom.Code); code != nil {
				cell = code
			}
			name := plain(cell)
			if last := len(list) - 1; last >= 0 && list[last][0]+"."+name == id {
				list[last] = append(list[last], name)
			} else {
				list = append(list, []string{id, name})
			}
		}
	}
	return list
}

// wordsOf returns the words of a page's text, without its code, each once.
func wordsOf(main *html.Node) []string {
	words := strings.FieldsFunc(strings.ToLower(strings.Join(texts(main, atom.Pre), " ")), func(c rune) bool { return !unicode.IsLetter(c) && c != '_' && c != '-' })
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(word string) bool { return len(word) < 4 })
}

// find returns the first element of a kind in a node, itself included; nil: none.
func find(n *html.Node, kind atom.Atom) *html.Node {
	if n.DataAtom == kind {
		return n
	}
	for d := range n.Descendants() {
		if d.DataAtom == kind {
			return d
		}
	}
	return nil
}

// texts returns the pieces of text in a node, without those in elements of a kind; 0: all of them.
func texts(n *html.Node, without atom.Atom) (list []string) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			list = append(list, c.Data)
		case without == 0 || c.DataAtom != without:
			list = append(list, texts(c, without)...)
		}
	}
	return list
}

// raw returns the text of a node as it is.
func raw(n *html.Node) string { return strings.Join(texts(n, 0), "") }

// plain returns the text of a node on one line.
func plain(n *html.Node) string { return strings.Join(strings.Fields(raw(n)), " ") }

// oneLine makes white space single spaces.
func oneLine(text string) string {
	const space = " \n\t"
	joined := strings.Join(strings.Fields(text), " ")
	if strings.TrimLeft(text, space) != text {
		joined = " " + joined
	}
	if joined != " " && strings.TrimRight(text, space) != text {
		joined += " "
	}
	return joined
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
