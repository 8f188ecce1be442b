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
//
// Producers' keys have another form than API keys, so that neither kind opens the other's door. A
// [KeyStore] makes and changes them, and a [KeyDirectory] checks them:
//
//   - A secret leaves the package once, when it is made. The database holds its SHA-256.
//   - A key that was revoked or rotated is refused by every instance within a second.
//   - A key that was just made works at once, on every instance.
//   - Look-ups of invented keys share queries. At most MaxLookUps queries run at a time.
package ingestapi
