// Package eventlog is the append-only log, the source of truth. A Log appends and
// reads entries, a Notifier tells subscribers which workspaces have changed, a
// Subscriber gives the entries to a consumer, exactly once, and Feed reads what the
// public may see.
//
// Its promises:
//
//   - Positions of a workspace are 1, 2, 3, … without a gap, in commit order.
//     No reader ever sees a position before the one below it.
//   - An append that returned without an error is durable; one that returned
//     an error of this package's types changed nothing.
//   - Publish times never fall.
//   - A workspace's visible position is the checkpoint of its read models. It
//     never moves back, and the feed and the deliveries read only up to it, so
//     an event is never shown before its data.
package eventlog
