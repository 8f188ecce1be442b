// Package proof has the commands about proof: the key that signs checkpoints, following a feed
// with proof, and handing a checkpoint to a witness.
package proof
