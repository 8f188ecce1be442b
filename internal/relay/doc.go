// Package relay sends the log to a message broker: every workspace's entries in order, up
// to the visible position, at least once. It is a Watermill Router between a consumer of
// the log and the publisher of a bus.
//
// Its promises:
//
//   - An entry of a workspace is sent only after the broker has stored the one before it.
//     So what the broker holds is in the order of the log, also when processes die or two
//     of them send the same entries: the broker knows their ids.
//   - The checkpoint of a workspace moves behind entries that the broker has stored.
//   - What keeps one workspace from being sent keeps no other.
//   - While the broker is away, nothing is read from the log for it.
package relay
