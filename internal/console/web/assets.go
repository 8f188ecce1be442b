package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/theme"
)

//go:embed assets
var assetFiles embed.FS

// Assets serves the stylesheet, the scripts and the icon. The name of each has a
// hash of its content, so that browsers may cache it for ever.
type Assets struct {
	byName map[string]string // console.css → /assets/console.1a2b3c4d.css
	bodies map[string]asset  // by the name with the hash
}

// asset is a file as it is, and compressed with gzip.
type asset struct{ plain, gzip []byte }

// LoadAssets reads the embedded files.
func LoadAssets() (*Assets, error) {
	a := &Assets{byName: map[string]string{}, bodies: map[string]asset{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("cannot read the console's assets: %w", err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("cannot read the console's assets: %w", err)
		}
		if _, err := a.Add(e.Name(), body); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Apply gives the stylesheet the colours of a theme, and adds its logo.
func (a *Assets) Apply(t *theme.Theme) error {
	const sheet = "console.css"
	if css := t.CSS(); css != nil {
		if _, err := a.Add(sheet, slices.Concat(a.bodies[path.Base(a.byName[sheet])].plain, css)); err != nil {
			return err
		}
	}
	if t.Logo.Type == "" {
		return nil
	}
	_, err := a.Add("logo"+t.Logo.Type, t.Logo.Body)
	return err
}

// Add adds an asset and returns its address. It is compressed here, once.
func (a *Assets) Add(name string, body []byte) (address string, err error) {
	var small bytes.Buffer
	z, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(body)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("cannot compress the console's asset %s: %w", name, err)
	}
	sum := sha256.Sum256(body)
	extension := path.Ext(name)
	hashed := strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
	a.byName[name] = "/assets/" + hashed
	a.bodies[hashed] = asset{body, small.Bytes()}
	return a.byName[name], nil
}

func (a *Assets) address(name string) (string, error) {
	address, ok := a.byName[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return address, nil
}

// ServeHTTP serves the asset that the route's parameter file names.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "file")
	file, ok := a.bodies[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if path.Ext(name) == "" || h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := file.plain
	if acceptsGzip(r) && len(file.gzip) < len(file.plain) {
		body = file.gzip
		h.Set("Content-Encoding", "gzip")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// acceptsGzip tells whether the caller takes gzip. One that weighs encodings (";q=")
// gets none, because no browser does.
func acceptsGzip(r *http.Request) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(item) == "gzip" {
			return true
		}
	}
	return false
}
