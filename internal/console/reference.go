package console

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
)

const referenceStyle = "reference.css"

var errReference = errors.New("console: Config.Reference has to be a page with one <style> element in its head")

// loadReference takes the description of the API, a page that stands by itself,
// and moves its style into an asset: no page of the console has any inline.
func loadReference(page []byte, a *assets) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte("<style>"))
	style, after, closed := bytes.Cut(rest, []byte("</style>"))
	if !found || !closed {
		return nil, errReference
	}
	a.add(referenceStyle, style)
	address, err := a.url(referenceStyle)
	if err != nil {
		return nil, err
	}
	link := fmt.Appendf(nil, `<link rel="stylesheet" href="%s"/>`, address)
	return bytes.Join([][]byte{before, link, after}, nil), nil
}

// referencePage serves the description; what the API can do is no secret.
func (c *Console) referencePage(a *ask) error {
	a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	_, _ = a.w.Write(c.reference) // a browser that went away
	return nil
}
