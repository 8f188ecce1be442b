// Package signingkey holds the key that the service signs checkpoints with: Ed25519, as
// signed notes (https://c2sp.org/signed-note), which programs that nobody here wrote can
// check.
//
// The name of a note's key says what the note is about (see names.go), and is part of the
// verifier key that others check with. What is configured is therefore a key without a
// name of its own, of which a signer is made for each name. A signature does not cover the
// name, but the text alone: the first line of every text that is signed is its name, so
// that no note can be taken for one of another kind.
package signingkey
