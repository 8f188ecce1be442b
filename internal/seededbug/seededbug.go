// Package seededbug puts one known bug into a build, so that ledgerfeed-chaos can be
// seen to find it: .ci/seeded-bugs builds the program with each tag in turn. Without
// a tag there is none, and the compiler removes every trace.
package seededbug

// Bug is a bug on purpose; the build tag seededbug_NAME chooses it.
type Bug int

// The bugs.
const (
	None                 Bug = iota
	ForgottenCheckpoint      // seededbug_checkpoint: the rows of a claim are committed, and its checkpoint is not moved
	SkippedPosition          // seededbug_position: every hundredth entry is not folded
	UncheckedChain           // seededbug_chain: cursors are taken without comparing the chain that they carry
	EarlyAcknowledgement     // seededbug_acknowledge: a single append is acknowledged though its transaction failed
	EventAheadOfData         // seededbug_visible: the feed shows events up to the head of the log, not up to the visible position
	LostRetry                // seededbug_retry: a failed delivery counts as succeeded
	UnsignedRetry            // seededbug_signature: attempts after the first are not signed
	SkippedTies              // seededbug_ties: a list cursor skips the other rows that the same entry changed
	ShownPayouts             // seededbug_payouts: the feed shows payouts to keys without pay:read
	OwnTransaction           // seededbug_outbox: AppendTx appends in a transaction of its own
	UnsentSkipped            // seededbug_relay: the relay passes over what the broker did not take
	UnappendedSkipped        // seededbug_ingest: messages whose append failed count as appended
)
