// Package relay sends the log to a message broker: every workspace's entries in order, up to the
// visible position, at least once. It is a Watermill Router between a consumer of the log and the
// broker's Publisher. The package also opens brokers by their URL, for the relay and for what reads
// from one.
//
// Its promises:
//
//   - The relay sends an entry only after the broker has stored the workspace's entry before it. So
//     the broker has the entries in the order of the log, even if processes die or two of them send
//     the same entries: the broker knows their ids.
//   - A workspace's checkpoint moves only past entries that the broker has stored.
//   - A workspace that cannot be sent does not hold up any other.
//   - While the broker is unavailable, the relay reads nothing from the log.
package relay
