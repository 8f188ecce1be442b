// Package ingestapi lets producers append entries over HTTP (docs/operations/ingest-api.md).
//
// What it promises:
//
//   - A request is appended as a whole or not at all, and answered after its commit.
//   - A request that is sent again appends nothing twice: each entry has an id, or gets one that
//     follows from the header Idempotency-Key.
//   - The bodies under way are bounded, over all requests and for each key, also when they are
//     compressed. What is above a bound is refused at once.
//   - A key, or a locked workspace, uses a part of the connections to the database. Others go on.
//   - A key is in no answer, log line or metric.
package ingestapi
