package requests

import (
	"net/http"
	"strings"
)

// curl is a line for a shell that makes a request again, with a placeholder for the
// key; empty where the path is not known in full. Query parameters are not in it, because
// they are not kept.
func curl(apiURL string, r *row) string {
	path := r.Target()
	if path == "" || strings.Contains(path, "{") || strings.HasSuffix(path, "…") {
		return ""
	}
	flags := "-i"
	switch r.Method {
	case http.MethodGet:
	case http.MethodHead:
		flags = "-I"
	case http.MethodOptions:
		flags = "-i -X OPTIONS"
	default:
		return ""
	}
	// The path is the caller's. It is percent-encoded, but neither what ends a quotation of
	// the shell nor what curl reads as a pattern.
	path = strings.NewReplacer("'", "%27", "[", "%5B", "]", "%5D").Replace(path)
	return "curl " + flags + " '" + strings.TrimSuffix(apiURL, "/") + path + "' -H 'Authorization: Bearer <API_KEY>'"
}
