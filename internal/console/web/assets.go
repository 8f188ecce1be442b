package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
)

//go:embed assets
var assetFiles embed.FS

// Assets serves the stylesheet, the scripts and the icon. The name of each has a
// hash of its content, so that browsers may cache it for ever.
type Assets struct {
	byName map[string]string // console.css → /assets/console.1a2b3c4d.css
	bodies map[string][]byte // by the name with the hash
}

// LoadAssets reads the embedded files.
func LoadAssets() (*Assets, error) {
	a := &Assets{byName: map[string]string{}, bodies: map[string][]byte{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("cannot read the console's assets: %w", err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("cannot read the console's assets: %w", err)
		}
		a.Add(e.Name(), body)
	}
	return a, nil
}

// Add adds an asset and returns its address.
func (a *Assets) Add(name string, body []byte) (address string) {
	sum := sha256.Sum256(body)
	extension := path.Ext(name)
	hashed := strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
	a.byName[name] = "/assets/" + hashed
	a.bodies[hashed] = body
	return a.byName[name]
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
	body, ok := a.bodies[name]
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
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
