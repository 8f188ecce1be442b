// Package flow says how goroutines share work, repeat it and end: a Coalescer lets concurrent callers
// share a transaction or a round trip, Repeat runs work at intervals, and an Outage logs when it
// begins to fail and when it works again. It also holds what the packages that run a Watermill
// Router share: messages that carry a value within the process, the error that a Nack cannot carry,
// and the Router's logger.
package flow
