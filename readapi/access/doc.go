// Package access decides who may call the API: keys, their secrets and their
// permissions (docs/contract/service.md, "Authentication"; docs/contract/decisions.md, "Keys").
//
// What it promises:
//
//   - A secret leaves the package once, when it is made. The database holds its
//     SHA-256, and a Secret that is printed or logged shows its public prefix.
//   - A key that was revoked or rotated, or that expired, is refused by every
//     instance within a second, whether or not a notification reached it. A
//     Directory that cannot be sure of its cache looks every key up in the
//     database; without the database it says that it cannot decide.
//   - A key that was just made works at once, on every instance.
//   - A request with a key that the instance has cached costs no SQL.
//
// A [Store] changes keys, a [Directory] authenticates them, and a [Format] defines how
// they are written.
package access
