// Package frontproxy runs nginx and Caddy with the configurations of packaging/proxy
// before servers that a test has started. Only addresses, the certificate and the places
// of logs are replaced in them. The proxies are those that .ci/setup installs; all but
// this file has the build tag outside, and needs Linux, whose loopback network has an
// address for each proxy.
package frontproxy
