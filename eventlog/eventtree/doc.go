// Package eventtree keeps the events of each workspace as transparency logs: Merkle trees
// (RFC 6962) in the form of https://c2sp.org/tlog-tiles, with whose checkpoints anybody can
// check that the feed shows every event, in one order, to all who may see it.
//
// A workspace has two trees, one for each Sight, so that a reader learns nothing of events
// that it may not see, not even how many there are. A leaf is the public form of an event,
// byte for byte as the feed has it, and leaves are in publish order.
//
// A Builder, a consumer of the log, adds what is visible. Tiles and roots are written in the
// transaction that moves its checkpoint, so each event is a leaf exactly once. They follow
// from the log alone: trees that are built again, in whatever steps, have the same bytes.
package eventtree
