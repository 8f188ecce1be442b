// Package readapi is the read-only HTTP API: GET, HEAD and OPTIONS on the resources, lists and
// events of one workspace.
//
// An [API] is a chi mux. Its middleware checks each request in the order of
// docs/contract/decisions.md, "Requests". The endpoints, with their permissions and parameters,
// come from the table in package route.
//
// Its promises:
//
//   - Every path goes through the same checks in the same order.
//   - Data that a key may not see is never read from the database for it.
//   - An answer comes from one snapshot: one statement reads the rows of a page and
//     the version in its ETag.
//   - A reader that follows a list by its cursor sees every row in its newest state at
//     least once, and no row twice unless it changed.
//   - No answer, log line or ETag holds a key, and no answer shows an internal error.
package readapi
