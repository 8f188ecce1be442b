// Package tracing makes OpenTelemetry traces and sends them by OTLP over HTTP. Spans
// hold names of routes, ids, statements with placeholders and statuses: never a key, a
// secret, an address of a caller, a path or a query, nor the URL of a receiver, which
// may contain a secret. That is why requests and attempts have spans of our own, and not
// those of a library for any HTTP.
package tracing
