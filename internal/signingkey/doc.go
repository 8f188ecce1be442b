// Package signingkey holds the key that the service signs checkpoints with. It is an Ed25519 key
// for signed notes (https://c2sp.org/signed-note), which independent programs can check. The package
// also reads and writes the text of a checkpoint, which is what such a note says.
//
// The name of a note's key says what the note is about (see Host), and is part of the verifier
// key that others check with. So the configured key has no name of its own, and a signer is made
// from it for each name. A signature covers only the text, not the name. Every text that is signed
// therefore begins with its name as the first line, so that no note can be taken for one of another
// kind.
package signingkey
