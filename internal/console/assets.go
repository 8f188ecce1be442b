package console

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
)

//go:embed assets
var assetFiles embed.FS

// assets serves the stylesheet, the scripts and the icon. Each has a hash of
// its content in its name, so browsers may keep it for good.
type assets struct {
	byName map[string]string // console.css → /assets/console.1a2b3c4d.css
	bodies map[string][]byte // by the name with the hash
}

func loadAssets() (*assets, error) {
	a := &assets{byName: map[string]string{}, bodies: map[string][]byte{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("read the console's assets: %w", err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the console's assets: %w", err)
		}
		a.add(e.Name(), body)
	}
	return a, nil
}

func (a *assets) add(name string, body []byte) {
	sum := sha256.Sum256(body)
	extension := path.Ext(name)
	hashed := strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
	a.byName[name] = "/assets/" + hashed
	a.bodies[hashed] = body
}

// url is the address of an asset.
func (a *assets) url(name string) (string, error) {
	u, ok := a.byName[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return u, nil
}

// ServeHTTP serves an asset.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
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
