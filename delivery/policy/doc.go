// Package policy holds the rules for delivering to webhooks as pure functions: when a failed
// delivery is tried again, when a webhook is turned off, and how many messages of one webhook may
// be in flight (docs/contract/service.md, "Retries and history"; docs/contract/decisions.md,
// "Webhooks").
//
// Nothing here reads a clock, the database or the network, so the rules are tested in virtual time.
package policy
