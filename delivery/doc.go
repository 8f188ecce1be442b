// Package delivery manages the webhooks of workspaces and shows their deliveries
// (docs/contract/service.md, "Webhook setup" to "Retries and history"; docs/contract/decisions.md,
// "Webhooks").
//
// Its subpackages do the sending: dispatch decides which message to send when and keeps the
// cursors, attempt makes one attempt, policy holds the rules for retrying and turning off, mail
// notifies the finance team, keyring encrypts secrets, and receiver is a webhook receiver for a
// developer's machine.
package delivery
