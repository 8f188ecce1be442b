// Package domain holds the rules of Ledgerfeed: what an entry of the log may say,
// the form in which it is stored, what it does to the read models, and what the
// feed and webhooks show of it. docs/contract has the binding texts; comments
// cite their sections.
//
// An entry comes in as a Draft, whose form is checked and whose data is
// canonical. The log gives it a position and a chain value, which makes it an
// Entry. State.Apply folds entries into read rows. A State may hold a whole
// workspace, or only the rows that a segment of entries needs: Needs names them
// before the fold, and Fragments are the form in which a store keeps them.
//
// What is particular to one type of entry is one row of the catalogue
// (entryType), next to its data struct and its effect; charge.go is an example.
//
// Promises:
//
//   - Everything is pure: no input or output, no clock, no randomness, no state
//     in the package.
//   - The same entries in the same order give the same rows, bytes and anomalies,
//     in one go or in segments of any size, as long as each segment is given the
//     rows it needs. Verifying and rebuilding rest on this.
//   - The fold never fails. An entry that cannot have its effect is an Anomaly.
//   - Amounts and hours are exact integers, and sums of them cannot overflow.
//   - The public form of an entry has ids alone.
package domain
