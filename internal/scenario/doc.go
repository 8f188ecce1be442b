// Package scenario generates agencies: realistic streams of log entries for the demo,
// for tests and for benchmarks.
//
// A Generator plays the history of one workspace (clients and contractors, working
// days, approvals, invoices by week, fortnight or month, payments, payouts, credit)
// as a discrete-event simulation. Every step of a story is an event in a queue that is
// ordered by simulated time. Running a step writes entries and plans the steps that
// follow, so the order of entries is causal: nothing is approved before it is
// recorded. A Living continues such an agency after its history, one entry for each
// call.
//
// Promises:
//
//   - The same Config gives the same bytes. The package reads no clock, and its only
//     randomness is the PCG seeded by Config.Seed.
//   - Data is in the canonical form of the log contract.
//   - Entries are about objects that earlier entries of the stream made, except for
//     about 4 in 1,000 that are anomalies (unknown objects and documents, repeats):
//     real producers send these too, and the fold must handle them.
package scenario
