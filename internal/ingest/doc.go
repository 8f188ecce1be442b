// Package ingest appends messages of other systems to the log: of a message broker, or of
// an outbox table in a producer's own database. A message's payload is an entry, as a line
// that append takes.
//
// Its promises:
//
//   - A source moves on behind messages that are in the log or among its dead letters. A
//     message that comes again is skipped by its id, so each is in the log once.
//   - Messages of a workspace are appended in the order of the source.
//   - A message that the log refuses, whenever it comes, becomes a dead letter with the
//     reason. Anything else that fails is tried again.
//   - Entries of a relay are appended at the positions that they had, or not at all.
package ingest
