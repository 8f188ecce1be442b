// Package witness asks other people's witnesses to cosign the checkpoints of transparency logs
// (https://c2sp.org/tlog-witness), and checks their signatures (https://c2sp.org/tlog-cosignature).
// A witness cosigns a checkpoint only if its tree extends every tree of the log that the witness
// has cosigned before, so readers who require its signature all see the same log.
package witness
