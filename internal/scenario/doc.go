// Package scenario invents agencies: deterministic, realistic streams of log
// entries for the demo and for benchmarks.
//
// A Generator plays the history of one workspace (clients and contractors,
// working days, approvals, invoices by week, fortnight or month, payments,
// payouts, credit) as a discrete-event simulation: every step of a story is an
// event in a queue ordered by simulated time, and running it writes entries and
// plans the steps that follow. That is what keeps the order causal (nothing is
// approved before it is recorded) without a second pass over the stream.
// Living continues such an agency after its history, one entry a call.
//
// Promises:
//
//   - The same Config gives the same bytes. The package reads no clock and no
//     randomness but the PCG seeded by Config.Seed.
//   - Data is in the canonical form of the log contract, so a reader that
//     canonicalises it gets the same bytes back.
//   - Entries are about objects that the stream made before, except for a small
//     share of odd ones (unknown objects and documents, repeats): real producers
//     send those too, and a fold has to live with them.
package scenario
