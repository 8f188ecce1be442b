// Package tracing makes OpenTelemetry traces and sends them by OTLP over HTTP. Spans hold route
// names, ids, statements with placeholders and statuses. They never hold a key, a secret, a
// caller's address, a path or a query, nor a receiver's URL, which may contain a secret. For this
// reason, requests and attempts have our own spans instead of those of a general HTTP library.
package tracing
