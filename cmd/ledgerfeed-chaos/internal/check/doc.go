// Package check judges what a run has seen. Producers, followers and receivers
// note what they did and what they were told (History, Follow, Inbox); at the end
// the log is read once, and everything is held against it.
//
// The log itself proves the order: its positions say in which order appends took effect. So a search
// for an order that would explain the history, which is what a general checker of linearizability
// does, is not needed, and the checks take time in proportion to the history.
package check
