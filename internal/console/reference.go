package console

import (
	"bytes"
	"errors"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

var errReference = errors.New("console: Config.Reference has to be a page with one <style> element in its head, and one <script> element")

// loadReference moves the style and the script of the API reference, a page without other files,
// into assets, because the console allows no inline ones.
func loadReference(page []byte, a *web.Assets) ([]byte, error) {
	for _, part := range []struct{ open, end, name, before, after string }{
		{"<style>", "</style>", "reference.css", `<link rel="stylesheet" href="`, `"/>`},
		{"<script>", "</script>", "reference.js", `<script src="`, `"></script>`},
	} {
		before, rest, found := bytes.Cut(page, []byte(part.open))
		text, after, ended := bytes.Cut(rest, []byte(part.end))
		if !found || !ended {
			return nil, errReference
		}
		address, err := a.Add(part.name, text)
		if err != nil {
			return nil, err
		}
		link := []byte(part.before + address + part.after)
		page = bytes.Join([][]byte{before, link, after}, nil)
	}
	return page, nil
}
