// Package watermillsql connects the log with programs that use Watermill and
// watermill-sql. Producers publish entries in their own transaction, and other
// services subscribe to the entries of a workspace as consumer groups. Both work
// on the log itself: there is no outbox table and no second copy of an entry.
//
// A message is an entry: its UUID is the entry's id, its topic the workspace, its
// payload the entry's data, and its metadata the rest (see the Metadata
// constants). The program itself reads the log, for example to project it, through
// eventlog.Subscriber, which is transactional.
//
// Publishing to a workspace that does not exist creates it, as Log.Append of eventlog does. A
// mistyped topic makes a workspace that no key reads: if the topic comes from outside, ask
// Log.Unknown first.
//
// A published entry has no trace: no webhook attempt links to the span that published it. If you
// want the link, use Log.AppendTx of eventlog with a Tracer in the same transaction
// (docs/operations/traces.md).
package watermillsql
