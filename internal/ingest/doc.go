// Package ingest appends messages of other systems to the log. They come from a message broker, or
// from an outbox table in a producer's own database. A message's payload is an entry, as a line
// that ledgerfeed append takes.
//
// Its promises:
//
//   - A source moves only past messages that are in the log or among its dead letters. A message
//     that comes again is skipped by its id, so each is in the log once.
//   - Messages of a workspace are appended in the order of the source.
//   - A message that the log will always refuse becomes a dead letter with the reason. Any other
//     failure is retried.
//   - Entries of a relay are appended at their original positions, or not at all.
package ingest
