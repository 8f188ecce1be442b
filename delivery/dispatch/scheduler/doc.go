// Package scheduler decides which message is sent to which webhook, and when. It
// is a state machine without input, output, goroutines or a clock:
// [Scheduler.Step] takes the time and events, changes the state, and returns the
// effects that the dispatcher has to carry out. All effects but Notify and Paused
// are answered by an event.
//
//	event                                     effects it may lead to
//	Changed, Found        something to do     Poll, Claim
//	Claimed, ClaimFailed  webhooks are held   Poll, Claim
//	Polled, PollFailed    messages are read   Start, Poll
//	Attempted, Returned   a message was sent  Record, Start
//	NotAttempted          it could not be     Paused
//	Recorded              results are stored  ChangeHealth, Start, Poll, Claim, Notify
//	HealthChanged         a webhook is off    Poll
//	LeaseTaken, LeaseLost others may send     TakeLease, Claim
//	LeaseRenewed          it lasts longer     Reconcile, Record
//	Tick, Drain           time has passed     any of them
//
// It guarantees:
//
//   - Nothing is skipped except events past their retention, which are counted. A
//     cursor never moves past a message whose result is not recorded, so a process
//     that takes over sends it again.
//   - A webhook never has more than its bound of messages that are started and
//     not recorded.
//   - First attempts of a webhook start in log order.
//   - Webhooks share the process evenly; a receiver that hangs or fails delays
//     only its own webhook.
//   - A retry never starts before its time.
//
// The tests run it in virtual time against a simulated database and receivers.
package scheduler
