// Package delivery sends the events of a workspace to its webhooks: signed,
// thin, at least once (docs/contract/service.md, "Webhook setup" to "Retries and history";
// docs/contract/decisions.md, "Webhooks").
//
// What it promises:
//
//   - A webhook gets the events of the types it chose, in the bytes of the
//     feed, and only after every read model holds their effect.
//   - First attempts start in log order. Nothing is skipped: a message that was
//     started and has no outcome in the database is sent again, by whoever
//     takes the webhook over. Those are never more than the webhook's bound of
//     messages under way.
//   - No webhook waits for another one's receiver. Those that do nothing but
//     fail take turns when they are many (pace.go).
//   - No connection is made to an address that is not public, unless the
//     operator opened it.
//
// How: each webhook has a cursor in its workspace's log. A process holds a
// webhook as long as its own lease lasts, reads what is due, hands each message
// to a handler of the Watermill Router, and records what came of it, many
// webhooks in one statement. What happens next is decided by pure functions
// (schedule.go, health.go, decide.go).
//
// [Store] is for those who manage webhooks, [Engine] for the process that
// delivers.
package delivery
