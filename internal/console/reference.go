package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// ReferencePath is the path of the front page of the API reference. The other pages are below it.
const ReferencePath = "/api"

var errReference = errors.New("console: every page of Config.Reference has to have the same <style> and <script> elements")

// loadReference moves the style and the script of the API reference into assets, because the console
// allows no inline ones. It returns the pages by path.
func loadReference(pages []*reference.Page, a *web.Assets) (map[string][]byte, error) {
	if len(pages) == 0 {
		return nil, errReference
	}
	var moved []string // each element, and what takes its place
	for _, part := range []struct{ open, end, name, before, after string }{
		{"<style>", "</style>", "reference.css", `<link rel="stylesheet" href="`, `"/>`},
		{"<script>", "</script>", "reference.js", `<script src="`, `"></script>`},
	} {
		_, rest, found := strings.Cut(string(pages[0].HTML), part.open)
		text, _, ended := strings.Cut(rest, part.end)
		if !found || !ended {
			return nil, errReference
		}
		address, err := a.Add(part.name, []byte(text))
		if err != nil {
			return nil, err
		}
		moved = append(moved, part.open+text+part.end, part.before+address+part.after)
	}
	list := map[string][]byte{}
	for _, p := range pages {
		page := string(p.HTML)
		for m := range slices.Chunk(moved, 2) {
			before, after, found := strings.Cut(page, m[0])
			if !found {
				return nil, errReference
			}
			page = before + m[1] + after
		}
		list["/"+reference.Under(ReferencePath)(p.Path)] = []byte(page)
	}
	return list, nil
}

// referencePage serves a page of the API reference to anyone, because it is not secret.
func (c *Console) referencePage(r *web.Request) error {
	page, found := c.reference[r.URL.Path]
	if !found {
		return web.ErrNotFound
	}
	r.WriteHTML(http.StatusOK, page)
	return nil
}
