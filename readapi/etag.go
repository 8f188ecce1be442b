package readapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// tagger makes ETags. A tag names everything that an answer depends on: the
// version of what it shows, the address, what the key may see, and how this
// program writes answers. It is keyed, so that it tells nothing and none can be
// made up.
type tagger struct {
	mac     *keyedHash
	program [sha256.Size]byte // how answers are written
}

func newTagger(key, document []byte) *tagger {
	return &tagger{mac: newKeyedHash(derive(key, "etag")), program: sha256.Sum256(document)}
}

// tagSize in bytes: 120 bits, which is 20 characters.
const tagSize = 15

// tag names the answer to a call at a version, without its encoding.
func (c *call) tag(version string) string {
	b := make([]byte, 0, 256)
	b = appendSized(b, c.key.WorkspaceID)
	b = appendSized(b, c.key.Permissions.String())
	b = appendSized(b, c.r.URL.EscapedPath())
	b = appendSized(b, c.r.URL.RawQuery)
	b = appendSized(b, version)
	sum := c.api.tags.mac.sum(c.api.tags.program[:], b)
	return base64.RawURLEncoding.EncodeToString(sum[:tagSize])
}

// etag is the strong ETag of a representation: each encoding has its own.
func etag(tag string, e encoding) string {
	if e == identity {
		return `"` + tag + `"`
	}
	return `"` + tag + "-" + e.name() + `"`
}

// answerKnown answers from what is known already, without the rows: 304 where
// the caller has the answer, or with an answer that was kept. Both ask the
// workspace for its version first; who has nothing to gain does not ask.
func (c *call) answerKnown() (bool, error) {
	if c.route.version == nil {
		return false, nil
	}
	// "*" depends on whether there is an answer, so only ETags count here.
	candidates := strings.Join(c.r.Header.Values("If-None-Match"), ",")
	var kept *keptPage
	if c.route.worthKeeping() {
		kept = c.api.pages.get(c.pageKey())
	}
	if kept == nil && !strings.Contains(candidates, `"`) {
		return false, nil
	}
	version, err := c.route.version(c)
	if err != nil {
		return false, err
	}
	tag := c.tag(version)
	if strings.Contains(candidates, tag) {
		if match := c.matching(tag, candidates); match != "" {
			c.writeNotModified(match)
			return true, nil
		}
	}
	if kept == nil || kept.version != version {
		return false, nil
	}
	if match := c.matching(tag, candidates); match != "" { // a star
		c.writeNotModified(match)
		return true, nil
	}
	c.rows = kept.rows
	c.writeKept(kept, tag)
	return true, nil
}

// matching returns the ETag among the caller's that names a representation that
// it could get now: uncompressed, or in an encoding that it accepts.
func (c *call) matching(tag, candidates string) string {
	if candidates == "" {
		return ""
	}
	for _, e := range c.accepted() {
		if current := etag(tag, e); matches(candidates, current) {
			return current
		}
	}
	return ""
}

// matches compares weakly, as If-None-Match wants it: a list of ETags, or *.
func matches(list, current string) bool {
	for list = strings.TrimLeft(list, " \t,"); list != ""; list = strings.TrimLeft(list, " \t,") {
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false // not a list of ETags
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == current {
			return true
		}
		list = list[end+2:]
	}
	return false
}

func (c *call) writeNotModified(tag string) {
	h := c.commonHeaders()
	h[headerETag] = []string{tag}
	h[headerCacheControl] = cachePrivate
	h[headerVary] = varyEncoding
	c.status = http.StatusNotModified
	c.w.WriteHeader(http.StatusNotModified)
}
