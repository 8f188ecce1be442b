package answer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
)

// Page is an answer that is the same for everybody, such as a page of the
// documentation. It is compressed once.
type Page struct {
	contentType []string
	policy      []string // Content-Security-Policy; nil: none
	location    []string // nil: it is no redirect
	tag         string
	encoded     [Zstd + 1][]byte
}

// Redirect returns a page that redirects to another address.
func Redirect(to string) *Page { return &Page{location: []string{to}} }

// NewPage prepares a page. policy is its Content-Security-Policy; empty: none.
func (r *Renderer) NewPage(contentType, policy string, body []byte) (*Page, error) {
	sum := sha256.Sum256(body)
	p := &Page{contentType: []string{contentType}, tag: base64.RawURLEncoding.EncodeToString(sum[:15])}
	if policy != "" {
		p.policy = []string{policy}
	}
	p.encoded[Identity] = body
	for _, e := range [...]Encoding{Gzip, Zstd} {
		var b bytes.Buffer
		if err := r.codecs.compress(&b, e, body); err != nil {
			return nil, err
		}
		p.encoded[e] = b.Bytes()
	}
	return p, nil
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
	best := Identity
	if len(p.encoded[Identity]) > compressAbove {
		best = w.Preferred()
	}
	if p.policy != nil {
		w.w.Header()[HeaderPolicyOfContent] = p.policy
	}
	w.ok(p.contentType, Encoded{best, p.encoded[best]}, p.tag)
}
