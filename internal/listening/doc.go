// Package listening has what stands between the network and an HTTP server: limits on the connections,
// so that callers cannot use up the descriptors that the process needs for its database, and TLS, with
// a certificate that is read again when its files change.
package listening
