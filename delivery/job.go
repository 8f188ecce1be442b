package delivery

import (
	"context"
	"net/url"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// key names a webhook.
type key struct{ workspaceID, webhookID string }

// hook is a webhook's row as delivering needs it. It is replaced as a whole.
type hook struct {
	url       *url.URL
	address   string
	events    []string // nil: all
	on        bool
	version   int
	epoch     int
	secret    string
	oldSecret string // empty: none
	oldUntil  time.Time
	broken    error // why nothing can be sent: a secret that cannot be opened
}

// secrets are those that sign a message sent at t, the newest first.
func (h *hook) secrets(t time.Time) []string {
	if h.oldSecret != "" && t.Before(h.oldUntil) {
		return []string{h.secret, h.oldSecret}
	}
	return []string{h.secret}
}

// lot is where a message comes from.
type lot int

const (
	fresh  lot = iota // the next entries of the log
	retry             // a delivery that waited
	missed            // "Send missed"
	lots
)

// job is one attempt of one delivery: what a message of the Router stands for.
type job struct {
	lane      *lane
	lot       lot
	position  int64
	eventID   string
	eventType string
	body      []byte
	published time.Time

	made     time.Time // created_at of the delivery; zero before its first attempt
	attempts int       // made before this one
	before   int       // of them before the retry schedule was begun
	once     bool

	hook    *hook   // as it was when the attempt began
	attempt Attempt // set by the handler
	err     error   // why the handler could not make it; set before Nack

	// What was decided after the attempt; see desk.finish.
	state State
	next  time.Time
}

// number is the attempt's number in its delivery, from 1.
func (j *job) number() int { return j.attempts + 1 }

// deliveryID is the same for all attempts of a delivery.
func (j *job) deliveryID() string { return j.eventID + "_" + j.lane.key.webhookID }

// KeepError remembers why the handler could not make the attempt.
func (j *job) KeepError(err error) { j.err = err }

// message is the job as the Router hands it on.
func (j *job) message(ctx context.Context) *message.Message {
	return flow.Message(ctx, j.deliveryID(), j.body, j)
}
