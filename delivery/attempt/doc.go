// Package attempt sends one message to one webhook, once: it signs the message,
// connects to public addresses only, and says in words why an attempt failed
// (docs/contract/service.md, "Delivery request" and "Signature";
// docs/contract/decisions.md, "Webhooks").
package attempt
