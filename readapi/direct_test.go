//go:build !outside

package readapi_test

// exchange makes a request; see proxied_test.go for the one through a proxy.
func (s *stand) exchange(method, path, key string, headers ...string) reply {
	s.t.Helper()
	return send(s.t, s.server, method, path, key, headers...)
}
