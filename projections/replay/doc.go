// Package replay folds logs again, beside the read tables, to verify those
// against the log, to rebuild them from it, and to explain how a row came to be.
//
// Every replay of a workspace works alike. A workspaceFold reads the log from
// position 1 and proves it on the way (logcheck.go), and folds it by the rules
// of the projector into a rowStore: in memory, or in shadow tables when the
// workspace is large. Then each read table is read page by page and compared
// with the fold (compare.go). Verify names what differs, Rebuild repairs it.
//
// Replay only reads the log, works while the service runs, and keeps no
// transaction open for longer than it takes to read a page, or to repair one
// workspace.
package replay
