// Package replica follows streaming replicas of the database, so that reads can be
// spread over them without showing less than what somebody was told.
//
// A Set asks the primary for the end of its write-ahead log, and each replica how much of
// that it has replayed. A replica that has replayed what the primary had at a moment
// shows all that was committed before it: it is current as of that moment. No clocks are
// compared, and nothing is written. Two rules follow from it, with one time, MaxLag:
//
//   - A replica is read from only while it is current as of MaxLag ago or later.
//   - What tells of something that the database shows, such as a webhook, first waits
//     until every replica is current as of the moment at which it was read, and no longer
//     than MaxLag (Set.Await).
//
// After MaxLag nobody reads from a replica that does not show it, in whichever process. So
// both rules hold between processes that know nothing of each other, and a replica that is
// cut off delays what is told by MaxLag, and stops nothing.
package replica
