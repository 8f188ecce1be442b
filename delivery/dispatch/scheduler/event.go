package scheduler

import (
	"net/url"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// Event is an input of the scheduler.
type Event interface{ event() }

type (
	// Changed says that the visible position of workspaces advanced, or that their webhooks were
	// changed.
	Changed struct {
		WorkspaceIDs []string
		All          bool // notifications may have been lost: any workspace may have changed
	}

	// Found says that a sweep found webhooks with work that no other process holds.
	Found struct{ Candidates []Candidate }

	// Claimed answers Claim: which webhooks are held by this process now.
	Claimed struct {
		Claim     *Claim
		Endpoints []Loaded
		More      bool // the claim reached its limit: there may be more to claim
	}

	// ClaimFailed answers Claim: this process holds no more webhooks than before.
	ClaimFailed struct{ Claim *Claim }

	// Polled answers Poll.
	Polled struct {
		Poll    *Poll
		Results []PollResult // one for each request, in order

		// Changed has the current settings of webhooks whose version differs from the request's.
		Changed map[Key]*Loaded
	}

	// PollFailed answers Poll: nothing could be read.
	PollFailed struct{ Poll *Poll }

	// Attempted answers Start: the attempt was made.
	Attempted struct {
		Attempt *Attempt
		Result  attempt.Result
	}

	// NotAttempted answers Start: the attempt could not be made, for a reason
	// that is not the receiver's. The webhook pauses.
	NotAttempted struct {
		Attempt *Attempt
		Err     error
	}

	// Returned answers Start: the dispatcher is stopping and did not make the attempt.
	Returned struct{ Attempt *Attempt }

	// Recorded answers Record. Locked are the parts that could not be written, each of one webhook,
	// because another transaction has locked a row of that webhook.
	Recorded struct {
		Record *Record
		Locked []*Record
	}

	// HealthChanged answers ChangeHealth.
	HealthChanged struct{ Change *HealthChange }

	// LeaseTaken answers TakeLease, or is the first event of all.
	LeaseTaken struct {
		Lease string
		At    time.Time // a time before the statement that took it
	}

	// LeaseRenewed says that the lease lasts again from At on.
	LeaseRenewed struct {
		Lease  string
		At     time.Time // a time before the statement that renewed it
		Census Census
	}

	// LeaseLost says that other processes may have taken over what was held under a lease.
	LeaseLost struct{ Lease string }

	// Reconciled answers Reconcile.
	Reconciled struct{}

	// Tick says that time has passed. It is due at Scheduler.NextTick.
	Tick struct{}

	// Drain asks to start nothing more, finish what is in flight, and release everything.
	Drain struct{}
)

func (Changed) event()       {}
func (Found) event()         {}
func (Claimed) event()       {}
func (ClaimFailed) event()   {}
func (Polled) event()        {}
func (PollFailed) event()    {}
func (Attempted) event()     {}
func (NotAttempted) event()  {}
func (Returned) event()      {}
func (Recorded) event()      {}
func (HealthChanged) event() {}
func (LeaseTaken) event()    {}
func (LeaseRenewed) event()  {}
func (LeaseLost) event()     {}
func (Reconciled) event()    {}
func (Tick) event()          {}
func (Drain) event()         {}

// Candidate is a webhook with work.
type Candidate struct {
	Key     Key
	Visible int64 // visible position of its workspace, if new or missed events wait; otherwise 0
}

// Loaded is a webhook as stored in its rows.
type Loaded struct {
	Key                   Key
	Endpoint              *Endpoint
	Health                policy.Health
	Position              int64 // of its cursor
	ReplayAfter, ReplayTo int64 // send missed events above ReplayAfter, up to ReplayTo; 0: none

	// Sent holds the positions after the cursor that are in the history of deliveries already. They
	// are not sent again.
	Sent map[int64]struct{}
}

// PollResult is what to send to one webhook.
type PollResult struct {
	Found       bool // the webhook exists
	Visible     int64
	NextAttempt time.Time // when the next retry after those read is due; zero: none waits
	Attempts    [sources][]*Attempt

	LiveTo, ReplayTo int64 // positions up to which the log was read, for the two sources
}

// Census is what a process learns when it renews its lease.
type Census struct {
	Processes  int // that are alive, this one included
	Held, Mine int // webhooks held by any process, and by this one
}

// Effect is something that the dispatcher has to do.
type Effect interface{ effect() }

type (
	// Poll reads what to send to webhooks.
	Poll struct{ Requests []PollRequest }

	// Claim takes webhooks that no process holds: those of WorkspaceIDs and those in Keys, without
	// those in Except.
	Claim struct {
		Lease        string
		WorkspaceIDs []string
		Keys         []Key
		Except       []Key
	}

	// Start makes an attempt.
	Start struct{ Attempt *Attempt }

	// Paused says that a webhook pauses and why, for the log.
	Paused struct {
		Attempt *Attempt
		Err     error
		Pause   time.Duration
	}

	// ChangeHealth turns a webhook off, or tells the finance team that it is
	// failing.
	ChangeHealth struct{ Change *HealthChange }

	// TakeLease gives up a lease, if there was one, and takes a new one.
	TakeLease struct{ Old string }

	// Reconcile releases webhooks that the database holds under the lease but that are not known
	// here, because the answer to a claim was lost.
	Reconcile struct {
		Lease string
		Known map[Key]struct{}
	}

	// Notify tells other processes that workspaces have webhooks to claim.
	Notify struct{ WorkspaceIDs []string }
)

// Record writes results, cursors and health, and then releases webhooks.
// Repeating it after an error is safe.
type Record struct {
	Lease    string
	Apart    bool // a part of another record, about one webhook with a locked row
	Attempts []AttemptRecord
	Cursors  []CursorRecord
	Health   []HealthRecord
	Releases []CursorRecord // webhooks to release, with their cursors
	Changes  []*HealthChange

	attempts []*Attempt
	evicted  []*queue
	queues   []*queue // the webhooks of the record, some more than once
}

func (*Poll) effect()        {}
func (*Claim) effect()       {}
func (Start) effect()        {}
func (Paused) effect()       {}
func (ChangeHealth) effect() {}
func (*Record) effect()      {}
func (TakeLease) effect()    {}
func (Reconcile) effect()    {}
func (Notify) effect()       {}

// PollRequest says what to read for a webhook.
type PollRequest struct {
	Key     Key
	Version int      // of the settings known here
	Events  []string // event types; nil: all

	After       int64 // read the log after this position
	LiveLimit   int   // maximum number of attempts to read, for each source
	RetryLimit  int
	ReplayLimit int

	ReplayAfter, ReplayTo int64 // range of missed events; ReplayTo 0: none

	queue *queue
}

// HealthChange is a change of a webhook's health.
type HealthChange struct {
	Key      Key
	Endpoint *Endpoint
	Change   policy.Change
	Since    time.Time // when it began to fail
	At       time.Time // end of the attempt that led to it
	Reason   string    // why that attempt failed
	Answer   string    // the receiver's response to it

	queue *queue
}

// AttemptRecord is one attempt for the history of deliveries.
type AttemptRecord struct {
	Key       Key
	Position  int64
	CreatedAt time.Time // of the delivery
	EventID   string
	EventType string
	Number    int // of the attempt, from 1
	Before    int
	State     policy.State
	Next      time.Time // next attempt of a pending delivery
	Epoch     int
	Result    attempt.Result

	AddressVersion int // of the address that it was sent to
}

// CursorRecord moves a cursor; it never moves back.
type CursorRecord struct {
	Key            Key
	Epoch, Version int // of the settings under which it moved
	Position       int64
	Replayed       int64 // 0: no missed events are being sent

	// Expired and ReplayExpired count events that were skipped because they were past their
	// retention: new ones up to Position, and missed ones up to Replayed. The counts are added when
	// the cursor moves.
	Expired, ReplayExpired int64
}

// HealthRecord stores a webhook's health.
type HealthRecord struct {
	Key    Key
	Epoch  int
	Health policy.Health

	AddressVersion int // of the address that it is about
}

// Key identifies a webhook.
type Key struct{ WorkspaceID, WebhookID string }

// Endpoint is a webhook's settings, as stored in its row. It is never changed; new settings are a
// new Endpoint.
type Endpoint struct {
	URL      *url.URL
	Address  string   // URL as the user wrote it
	Name     string   // for people; empty: none
	Events   []string // event types; nil: all
	On       bool
	Paused   bool // not on: everything waits except what a person sends by hand
	Standard bool // messages also carry the Standard Webhooks headers
	Version  int  // raised by every change that a user makes
	Epoch    int  // raised when the webhook is turned off, on, or paused
	Kept     int  // results and pending deliveries since this epoch still count
	// AddressVersion is the version in which the address was set. The result of an attempt under
	// another AddressVersion says nothing about this address.
	AddressVersion int
	Secret         string
	Old            []OldSecret // also sign until they expire, newest first
	Broken         error       // why no message can be sent, such as a secret that cannot be opened; nil: messages can be sent
}

// pendingEpoch returns the epoch of a delivery that is tried again after an attempt under these
// settings. While a webhook is paused, only deliveries that a person sends have its current epoch.
func (e *Endpoint) pendingEpoch() int {
	if e.Paused {
		return e.Epoch - 1
	}
	return e.Epoch
}

// Secrets returns the secrets that sign a message sent at a time, the newest
// first.
func (e *Endpoint) Secrets(at time.Time) []string {
	list := []string{e.Secret}
	for _, old := range e.Old {
		if at.Before(old.Until) {
			list = append(list, old.Secret)
		}
	}
	return list
}

// OldSecret is a secret from before a rotation.
type OldSecret struct {
	Secret string
	Until  time.Time // it signs before this time
}

// Source says where a message comes from.
type Source int

// The sources.
const (
	Live    Source = iota // the next entries of the log
	Retry                 // a delivery that is pending
	Replay                // "Send missed"
	sources               // their number
)

// Attempt is one attempt of one delivery. The reader fills in the first group of
// fields; the dispatcher reads them and must not change them.
type Attempt struct {
	Source    Source
	Position  int64 // of the event in its workspace's log
	EventID   string
	EventType string
	Body      []byte    // the event's public form
	Published time.Time // created_at of the event
	Traced    string    // the span in which the event was appended; see tracing.Within

	CreatedAt time.Time // of the delivery; zero before its first attempt
	Made      int       // attempts made before this one
	Before    int       // attempts made before the retry schedule began again; see policy.Attempted
	Once      bool      // "Send again"; see policy.Attempted

	// Endpoint is the webhook's settings when the attempt was started.
	Endpoint *Endpoint

	queue  *queue
	result attempt.Result
	state  policy.State
	next   time.Time // next attempt of a pending delivery
}

// Number returns the attempt's number in its delivery, from 1.
func (a *Attempt) Number() int { return a.Made + 1 }

// due returns when the next attempt of a pending delivery is due: at once if the webhook has
// another address by now.
func (a *Attempt) due() time.Time {
	if a.state == policy.Pending && a.toOtherAddress() {
		return a.result.Ended()
	}
	return a.next
}

// toOtherAddress reports whether the webhook's address has changed since the attempt was started.
func (a *Attempt) toOtherAddress() bool {
	return a.Endpoint.AddressVersion != a.queue.endpoint.AddressVersion
}

// Key returns the webhook that the attempt is for.
func (a *Attempt) Key() Key { return a.queue.key }

// DeliveryID returns the id of the delivery, the same for all its attempts.
func (a *Attempt) DeliveryID() string { return a.EventID + "_" + a.queue.key.WebhookID }
