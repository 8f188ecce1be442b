package scheduler

import (
	"net/url"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
)

// Key identifies a webhook.
type Key struct{ WorkspaceID, WebhookID string }

// Endpoint is a webhook's settings, as its row has them. It is never changed;
// new settings are a new Endpoint.
type Endpoint struct {
	URL      *url.URL
	Address  string   // URL as the user wrote it
	Name     string   // for people; empty: none
	Events   []string // event types; nil: all
	On       bool
	Paused   bool // not on: what there is to send waits, but for what a person sends by hand
	Standard bool // messages have the headers of Standard Webhooks, too
	Version  int  // raised by every change that a user makes
	Epoch    int  // raised when the webhook is turned off, on, or paused
	Kept     int  // what was decided or is pending since this epoch still counts
	// AddressVersion is the version that came with the address. What an attempt under another
	// one comes to says nothing about this address.
	AddressVersion int
	Secret         string
	Old            []OldSecret // sign too until their time ends, newest first
	Broken         error       // why no message can be sent, such as a secret that cannot be opened; nil: it can
}

// pendingEpoch is the epoch of a delivery that is tried again after an attempt under these
// settings. While a webhook is paused only what a person sends has its present epoch.
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
	Before    int       // of them before the retry schedule began again; see policy.Attempted
	Once      bool      // "Send again"; see policy.Attempted

	// Endpoint is the webhook's settings when the attempt was started.
	Endpoint *Endpoint

	queue  *queue
	result attempt.Result
	state  policy.State
	next   time.Time // of a pending delivery
}

// Number is the attempt's number in its delivery, from 1.
func (a *Attempt) Number() int { return a.Made + 1 }

// due is when the next attempt of a pending delivery is to be made: at once if the webhook has
// another address by now.
func (a *Attempt) due() time.Time {
	if a.state == policy.Pending && a.toOtherAddress() {
		return a.result.Ended()
	}
	return a.next
}

// toOtherAddress tells whether the webhook has another address by now than that of the attempt.
func (a *Attempt) toOtherAddress() bool {
	return a.Endpoint.AddressVersion != a.queue.endpoint.AddressVersion
}

// Key identifies the webhook that the attempt is for.
func (a *Attempt) Key() Key { return a.queue.key }

// DeliveryID is the same for all attempts of a delivery.
func (a *Attempt) DeliveryID() string { return a.EventID + "_" + a.queue.key.WebhookID }
