// Package readapi is the read-only HTTP API: GET, HEAD and OPTIONS on the
// resources, lists and events of one workspace.
//
// An [API] is a chi mux. Its middleware are the checks of a request, in the order of
// docs/contract/decisions.md, "Requests"; the endpoints, with their permissions and
// parameters, come from the table in package route.
//
// Its promises:
//
//   - Every path goes through the same checks in the same order.
//   - What a key may not see is never read from the database on its behalf.
//   - An answer is of one snapshot: the rows of a page and the version in its
//     ETag are read by one statement.
//   - A list followed by its cursor shows every row in its newest state at least
//     once, and nothing twice unless it changed.
//   - No answer, log line or ETag holds a key, and none shows an inner error.
package readapi
