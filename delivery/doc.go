// Package delivery manages the webhooks of workspaces and shows what was
// delivered to them (docs/contract/service.md, "Webhook setup" to "Retries and
// history"; docs/contract/decisions.md, "Webhooks").
//
// The packages below it send: dispatch decides which message is sent when and
// keeps the cursors, attempt makes one attempt, policy holds the rules of retries
// and turning off, mail tells the finance team, keyring seals secrets, and
// receiver is a webhook receiver for a developer's machine.
package delivery
