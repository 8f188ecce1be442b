// Package domain holds the rules of Ledgerfeed: what a log entry may contain, how it is stored,
// how it changes the read models, and what the feed and webhooks show of it. docs/contract is the
// specification; comments cite its sections.
//
// An entry arrives as a Draft: checked, with its data in canonical form. The log gives it a
// position and a chain value, which makes it an Entry. State.Apply folds entries into read rows. A
// State may hold a whole workspace or only the rows that a segment of entries needs. Needs lists
// these rows before the fold, and Fragments is the form in which a store keeps them.
//
// Everything specific to one entry type is in one row of the catalogue (entryType), next to its
// data struct and its effect; charge.go is an example.
//
// Promises:
//
//   - Everything is pure: no input or output, no clock, no randomness, no mutable package state.
//   - The same entries in the same order give the same rows, bytes and anomalies, whether folded in
//     one go or in segments of any size, as long as each segment is given the rows it needs. Verify
//     and rebuild rely on this.
//   - The fold never fails. An entry that cannot have its effect is an Anomaly.
//   - Amounts and hours are exact integers, and sums of them cannot overflow.
//   - The public form of an entry contains only ids.
package domain
