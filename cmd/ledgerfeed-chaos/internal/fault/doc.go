// Package fault is what goes wrong: the kinds of faults, and a schedule of them that
// follows from a seed. The same seed gives the same faults, in the same order, with the
// same targets, lengths and pauses between them.
package fault
