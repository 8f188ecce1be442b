//go:build !outside

package readapi_test

import "net/http"

// exchange makes a request; see proxied_test.go for the one through a proxy.
func (s *stand) exchange(method, path, key string, headers ...string) reply {
	s.t.Helper()
	return send(s.t, s.server, method, path, key, headers...)
}

// witnessed is the handler of a stand's server; see frontproxy_test.go for one that
// remembers its answers.
func witnessed(h http.Handler) http.Handler { return h }
