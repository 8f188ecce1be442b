// Package entrance lets the statements of a workspace come into a Citus cluster by the node
// that has its rows. There they run without a hop, and the coordinator, by which everything
// would come in otherwise, does nothing for them.
//
// Any node answers any statement rightly, so what is known here need not be right: a shard
// that was moved a moment ago costs a hop, and a workspace of which nothing is known comes in
// by the coordinator.
package entrance
