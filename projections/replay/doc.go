// Package replay folds logs again, apart from the read tables. It does so to verify these tables
// against the log, to rebuild them from it, and to explain how a row came to be.
//
// Every replay of a workspace works in the same way. A workspaceFold reads the log from position 1
// and checks it on the way (logcheck.go). It folds the log by the rules of the projector into a
// rowStore: in memory, or in shadow tables if the workspace is large. Then it reads each read table
// page by page and compares it with the fold (compare.go). Verify reports the differences, Rebuild
// repairs them.
//
// Replay only reads the log, works while the service runs, and keeps no transaction open for longer
// than it takes to read a page, or to repair one workspace.
package replay
