// Package follower follows a workspace's feed over the API, as a customer's program or an
// auditor does, and checks that what it is shown is what the service has signed.
//
// With a Tree it hands on an event only after it has been found, byte for byte, at its index
// in a tree whose checkpoint is signed, and which extends every checkpoint that this follower
// has accepted before. What contradicts a signature is a DifferenceError; it carries the
// notes that prove it.
//
// The place is kept in a file that is written after what was handed on is safe. So nothing is
// left out, however the follower ends; and where the output is a file, nothing is there twice.
package follower
