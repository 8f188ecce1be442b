// Package readapi is the read-only HTTP API: GET, HEAD and OPTIONS on the
// resources, lists and events of one workspace.
//
// Everything about an endpoint stands in one row of the route table: its path,
// permission, parameters, fields and words. Routing, the chain of checks, the
// reading of parameters and the OpenAPI document all come from that row, so none
// can forget what another knows.
//
// Its promises:
//
//   - Checks run in one order, the same for every path (docs/contract/decisions.md, "Requests").
//   - What a key may not see is never read from the database on its behalf.
//   - An answer is of one snapshot: the rows of a page and the version in its
//     ETag are read by one statement.
//   - A list followed by its cursor shows every row in its newest state at least
//     once, and nothing twice unless it changed.
//   - No answer, log line or ETag holds a key, and none shows an inner error.
package readapi
