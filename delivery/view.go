package delivery

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/domain"
)

// AllEvents chooses every event type, including types added in later versions.
const AllEvents = "all"

// Time is a time that has its public form in JSON; the zero value becomes null.
type Time struct{ time.Time }

// MarshalJSON returns the public form.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return append(domain.AppendTime([]byte{'"'}, t.Time), '"'), nil
}

func timeOf(t *time.Time) Time {
	if t == nil {
		return Time{}
	}
	return Time{t.UTC()}
}

// Webhook is a webhook as its owner sees it (docs/contract/decisions.md,
// "Commands").
type Webhook struct {
	ID              string   `json:"id"`
	WorkspaceID     string   `json:"workspace_id"`
	Name            string   `json:"name"`        // empty: none
	Description     string   `json:"description"` // empty: none
	URL             string   `json:"url"`
	Events          []string `json:"events"`           // ["all"], or types in the order of the catalogue
	Standard        bool     `json:"standard_headers"` // messages also carry the Standard Webhooks headers
	State           string   `json:"state"`            // on or off; on while it is paused
	PausedAt        Time     `json:"paused_at"`        // null: not paused
	CreatedAt       Time     `json:"created_at"`
	FailingSince    Time     `json:"failing_since"`
	TurnedOffAt     Time     `json:"turned_off_at"`
	TurnedOffSince  Time     `json:"turned_off_since"`  // while off: since when every attempt had failed
	TurnedOffReason *string  `json:"turned_off_reason"` // while off: failing, or gone if the receiver answered 410; otherwise null
	Notice          *string  `json:"notice"`            // what needs attention, in words; null: nothing does
	OldSecretUntil  Time     `json:"old_secret_until"`  // the latest of OldSecretsUntil; null: no old secret signs

	// OldSecretsUntil lists when each old secret that still signs expires, newest secret first.
	OldSecretsUntil []Time `json:"old_secrets_until"`

	// Last24Hours counts attempts by outcome.
	Last24Hours map[attempt.Outcome]int64 `json:"last_24_hours"`

	// SendingMissed is true while "Send missed" is in progress.
	SendingMissed bool `json:"sending_missed"`

	// ExpiredEvents counts events that were not sent, because they were past the retention when
	// their turn came (docs/contract/decisions.md, "Webhooks").
	ExpiredEvents int64 `json:"expired_events"`
}

// On reports whether the webhook gets events: at once or, if it is paused, after it is resumed.
func (w *Webhook) On() bool { return w.State == "on" }

// LiveSecrets returns how many secrets sign the webhook's messages.
func (w *Webhook) LiveSecrets() int { return 1 + len(w.OldSecretsUntil) }

// MayRotate reports whether the webhook may get another secret now; see SecretsError.
func (w *Webhook) MayRotate() bool { return w.LiveSecrets() < MaxSecrets }

// Label names the webhook by its name, if it has one, and its host and path.
func (w *Webhook) Label() string { return attempt.Label(w.Name, w.URL) }

// Shown returns the webhook's address as people see it; see attempt.Shown.
func (w *Webhook) Shown() string { return attempt.Shown(w.URL) }

// WithSecret is a webhook with its signing secret, which is shown once.
type WithSecret struct {
	Webhook
	Secret string `json:"secret"`
}

// Delivery is one event for one webhook, with all attempts.
type Delivery struct {
	ID            string        `json:"id"` // <event id>_<webhook id>
	EventID       string        `json:"event_id"`
	EventType     string        `json:"event_type"`
	Position      int64         `json:"log_position"` // of the event's entry in the workspace's log
	State         policy.State  `json:"state"`
	CreatedAt     Time          `json:"created_at"`
	NextAttemptAt Time          `json:"next_attempt_at"`
	Attempts      []AttemptView `json:"attempts"` // oldest first
	About

	ClientID string `json:"-"` // that the event names; empty: none
	NeedsPay bool   `json:"-"` // only readers with pay:read may see the event
}

// About says which object the event of a delivery is about, as its message does.
type About struct {
	ObjectType    string  `json:"object_type"`
	ObjectID      string  `json:"object_id"`
	InvoiceNumber *string `json:"invoice_number"` // null: the event names none
}

// Subject returns what people call the object: an invoice's number, or a type and an id.
func (a *About) Subject() string {
	if a.InvoiceNumber != nil {
		return *a.InvoiceNumber
	}
	return strings.TrimSpace(strings.ReplaceAll(a.ObjectType, "_", " ") + " " + a.ObjectID)
}

// AttemptView is one attempt as the webhook's owner sees it.
type AttemptView struct {
	At         json.RawMessage `json:"at"`
	Status     *int            `json:"status"` // null: no answer
	Error      *string         `json:"error"`  // in words; null: success
	DurationMS int64           `json:"duration_ms"`
	Answer     *string         `json:"answer"` // the first KiB; null: empty
}

// FullDelivery is a delivery with its message.
type FullDelivery struct {
	Delivery
	WebhookID string `json:"webhook_id"`
	URL       string `json:"url"`
	Body      string `json:"body"` // as it was sent
}
