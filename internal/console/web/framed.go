package web

import (
	"net/http"
	"slices"
)

// FramedHeader is what scripts of a page in a frame say: browsers say it of pages alone.
// Another site cannot set it.
const FramedHeader = "Ledgerfeed-Framed"

// Framed tells whether a request is for a page in a frame, or comes from one.
func Framed(r *http.Request) bool {
	return slices.Contains([]string{"iframe", "frame"}, r.Header.Get("Sec-Fetch-Dest")) || r.Header.Get(FramedHeader) != ""
}

// Framed tells whether the request is for the console in a frame of a product, and comes
// with the session of that frame. Without products that may, there is none.
func (r *Request) Framed() bool { return len(r.site.EmbedOrigins) > 0 && Framed(r.Request) }
