// Package dispatch delivers the events of workspaces to their webhooks, at least
// once (docs/contract/service.md, "Delivery request" to "Retries and history";
// docs/contract/decisions.md, "Webhooks").
//
// Each webhook has a cursor in its workspace's log. A process holds a webhook for
// as long as the process's lease lasts. One loop owns the state machine of
// package scheduler, which decides what to read, send, record and release. Workers
// do the input and output that it asks for:
//
//	notifications, sweep, lease ──► events ──► loop: scheduler.Step ──► effects
//	                                  ▲                                   │
//	                                  └── poll, claim, attempt, record ◄──┘
//
// An attempt is a message of the Watermill Router, whose handler sends it (package
// attempt). Ack means that the attempt was made, whatever its result. Nack means
// that it could not be made, for a reason that is not the receiver's.
//
// A process that dies loses no message: the process that takes over sends again what
// was started and not recorded. Per webhook, that is never more than Config.Bound
// attempts.
package dispatch
