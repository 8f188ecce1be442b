// Package eventtree keeps the events of each workspace as transparency logs: Merkle trees (RFC
// 6962) in the form of https://c2sp.org/tlog-tiles. With their checkpoints anybody can check that
// the feed shows every event, in one order, to all readers who may see it.
//
// A workspace has two trees, one for each Sight, so that a reader learns nothing about events that
// it may not see, not even how many there are. A leaf is the public form of an event, byte for byte
// as in the feed, and leaves are in publish order.
//
// A Builder, a consumer of the log, adds events that are visible. It writes tiles and roots in the
// transaction that moves its checkpoint, so each event is a leaf exactly once. They follow from the
// log alone: trees that are built again, in whatever steps, have the same bytes.
package eventtree
