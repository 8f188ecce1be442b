package console

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

var errReference = errors.New("console: Config.Reference has to be a page with one <style> element in its head")

// loadReference moves the style of the API's description, which is a page without
// other files, into an asset, because the console allows no inline styles.
func loadReference(page []byte, a *web.Assets) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte("<style>"))
	style, after, closed := bytes.Cut(rest, []byte("</style>"))
	if !found || !closed {
		return nil, errReference
	}
	link := fmt.Appendf(nil, `<link rel="stylesheet" href="%s"/>`, a.Add("reference.css", style))
	return bytes.Join([][]byte{before, link, after}, nil), nil
}
