package answer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
)

// Page is an answer that is the same for everybody, such as a page of the
// documentation. It is compressed once, for the first caller who accepts an encoding.
type Page struct {
	contentType []string
	policy      []string // Content-Security-Policy; nil: none
	location    []string // nil: it is no redirect
	tag         string
	body        []byte
	encoded     [Zstd + 1]struct {
		once sync.Once
		Encoded
	}
}

// Redirect returns a page that redirects to another address.
func Redirect(to string) *Page { return &Page{location: []string{to}} }

// NewPage prepares a page. policy is its Content-Security-Policy; empty: none.
func NewPage(contentType, policy string, body []byte) *Page {
	sum := sha256.Sum256(body)
	p := &Page{contentType: []string{contentType}, body: body, tag: base64.RawURLEncoding.EncodeToString(sum[:15])}
	if policy != "" {
		p.policy = []string{policy}
	}
	return p
}

// Page answers with a page.
func (w *Writer) Page(p *Page) {
	if p.location != nil {
		h := w.setCommon()
		h[HeaderLocation] = p.location
		h[HeaderCacheControl] = w.renderer.fixed.cacheNever
		w.Status = http.StatusFound
		w.w.WriteHeader(http.StatusFound)
		return
	}
	if current := w.Match(p.tag); current != "" {
		w.NotModified(current)
		return
	}
	if p.policy != nil {
		w.w.Header()[HeaderPolicyOfContent] = p.policy
	}
	kept := &p.encoded[w.Preferred()]
	kept.once.Do(func() { kept.Encoded = w.Encode(&bytes.Buffer{}, p.body) })
	w.ok(p.contentType, kept.Encoded, p.tag)
}
