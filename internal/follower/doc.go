// Package follower follows a workspace's feed over the API, as a customer's program or an auditor
// does, and checks that the service shows what it has signed.
//
// With a Tree, it hands on an event only after it has found the event, byte for byte, at its index
// in a signed tree that extends every checkpoint this follower has accepted before. Anything that
// contradicts a signature is a DifferenceError, which carries the notes that prove it.
//
// The follower saves its place in a file only after the events that it handed on are safe. So it
// leaves no event out, however it ends. If the output is a file, no event is in it twice.
package follower
