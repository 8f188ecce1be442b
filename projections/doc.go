// Package projections folds the log into the read tables. It and its
// sub-packages are their only writers.
//
// A Watermill handler gets the next entries of some workspaces, loads the rows
// that the entries may change, folds in memory by the rules of the domain, and
// writes what has changed, in the transaction that moves the workspaces'
// checkpoints. So every entry has its effect exactly once, and all read tables
// of a workspace are always at the same position, its visible position.
//
// The read tables are described in projections/table. Readers depend on the
// schema alone (see its comments), never on these packages.
package projections
