// Package access decides who may call the API: keys, their secrets and their
// permissions (docs/contract/service.md, "Authentication"; docs/contract/decisions.md, "Keys").
//
// What it promises:
//
//   - A secret leaves the package once, when it is made. The database holds its
//     SHA-256, and a Secret that is printed or logged shows its public prefix.
//   - A key that was revoked or rotated, or that expired, is refused by every
//     instance within a second, whether or not anything told the instance. A
//     Directory that cannot be sure of what it remembers asks the database for
//     each request, and refuses to answer when it cannot.
//   - A key that was just made works at once, on every instance.
//   - A request with a key that the instance knows costs no SQL.
//
// Store changes keys, Directory recognises them, Format is how they are written.
package access
