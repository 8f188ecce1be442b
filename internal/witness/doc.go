// Package witness has other people's witnesses of transparency logs cosign checkpoints
// (https://c2sp.org/tlog-witness), and checks their signatures
// (https://c2sp.org/tlog-cosignature). A witness cosigns a checkpoint only if its tree
// extends every tree of the log that it has cosigned before, so readers who ask for its
// signature all see one and the same log.
package witness
