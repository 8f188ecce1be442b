// Package dispatch delivers the events of workspaces to their webhooks, at least
// once (docs/contract/service.md, "Delivery request" to "Retries and history";
// docs/contract/decisions.md, "Webhooks").
//
// Each webhook has a cursor in its workspace's log. A process holds a webhook for
// as long as the process's lease lasts. One loop owns the state machine of
// package scheduler, which decides what is read, sent, recorded and released;
// workers do the input and output that it asks for:
//
//	notifications, sweep, lease ──► events ──► loop: scheduler.Step ──► effects
//	                                  ▲                                   │
//	                                  └── poll, claim, attempt, record ◄──┘
//
// An attempt is a message of the Watermill Router, whose handler sends it (package
// attempt). Ack means that the attempt was made, whatever its result. Nack means
// that it could not be made, for a reason that is not the receiver's.
//
// A process that dies loses no message: what it had started and not recorded is
// sent again by the process that takes over. That is never more than the bound of
// attempts under way for each webhook.
package dispatch
