// Package projections folds the log into the read tables. It and its
// sub-packages are their only writers.
//
// A Watermill handler gets the next entries of some workspaces, loads the rows that the entries may
// change, folds the entries in memory by the rules of package domain, and writes the changed rows.
// It does so in the transaction that moves the workspaces' checkpoints. So every entry has its
// effect exactly once, and all read tables of a workspace are always at the same position, its
// visible position.
//
// Package projections/table describes the read tables. Readers depend only on the schema (see its
// comments), never on these packages.
package projections
