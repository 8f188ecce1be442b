// Package projections folds the log into the read tables, and is the only
// writer of them.
//
// A Watermill handler gets the next entries of some workspaces, loads the rows
// they concern, folds in memory by the rules of the domain, and writes what
// has changed, in the transaction that moves the workspaces' checkpoints. So
// every entry has its effect exactly once, and all read tables of a workspace
// always stand at the same position, its visible position.
//
// Readers depend on the schema alone (see its comments), never on this package.
package projections
