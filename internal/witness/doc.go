// Package witness is a witness of transparency logs, in the form https://c2sp.org/tlog-witness:
// it cosigns a log's checkpoint only if its tree extends every tree of the log that it has
// cosigned before. So readers who ask for its signature all see one and the same log.
//
// A checkpoint is kept before it is cosigned towards anybody, and lasts whenever the process
// or the machine stops. Where a log has signed two trees of one size, both notes are kept:
// they prove it to everybody.
package witness
