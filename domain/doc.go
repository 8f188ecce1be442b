// Package domain is the vocabulary of Ledgerfeed and its rules: what an entry
// of the log may say, in which form it is kept, what it does to the read
// models, and what the feed shows of it.
//
// Everything here is pure: no input or output, no clock, no randomness. The
// same entries in the same order give the same rows, bytes and anomalies, in
// one go or in segments of any size; that is what makes replay a proof.
//
// The binding texts are in docs/contract; comments name the section.
package domain
