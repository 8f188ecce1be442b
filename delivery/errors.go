package delivery

import (
	"errors"
	"fmt"
)

// MaxWebhooks is the maximum number of webhooks per workspace (docs/contract/service.md, "Webhook
// setup").
const MaxWebhooks = 5

// ErrOff means that the operation needs a webhook that is on.
var ErrOff = errors.New("the webhook is off; turn it back on first")

// ErrPaused means that the operation is not possible while the webhook is paused.
var ErrPaused = errors.New("the webhook is paused; resume it first, or send a single delivery again")

// ErrNotFinished means that the delivery is still pending.
var ErrNotFinished = errors.New("the delivery is pending; it will be retried automatically")

// ErrFinished means that the delivery is no longer pending.
var ErrFinished = errors.New("the delivery has finished and is not tried again; send it again instead")

// ErrUnderWay means that the delivery's next attempt is due, so a dispatcher is making it.
var ErrUnderWay = errors.New("the next attempt is being made now")

// ErrTooManyDeliveries means that more than MaxResend deliveries were chosen.
var ErrTooManyDeliveries = fmt.Errorf("at most %d deliveries are sent again at once", MaxResend)

// ErrTooManyWebhooks means that the workspace has MaxWebhooks webhooks already.
var ErrTooManyWebhooks = fmt.Errorf("a workspace has at most %d webhooks", MaxWebhooks)

// ErrLocked means that another transaction, such as a psql session, held a webhook's rows for
// longer than StoreConfig.LockTimeout.
var ErrLocked = errors.New("another transaction has held the webhook's rows for too long; nothing was changed; try again, or end that transaction")

// UnknownWebhookError names a webhook that does not exist.
type UnknownWebhookError struct{ WebhookID string }

// Error names the webhook.
func (e *UnknownWebhookError) Error() string {
	return fmt.Sprintf("there is no webhook %q", e.WebhookID)
}

// UnknownDeliveryError names a delivery that does not exist, or no longer does.
type UnknownDeliveryError struct{ DeliveryID string }

// Error names the delivery.
func (e *UnknownDeliveryError) Error() string {
	return fmt.Sprintf("there is no delivery %q", e.DeliveryID)
}

// EventsError says what is wrong with a choice of event types.
type EventsError struct{ Reason string }

// Error is a sentence for the user.
func (e *EventsError) Error() string { return e.Reason }

// TextError says what is wrong with a webhook's name or description.
type TextError struct {
	Field  string // "name" or "description"
	Reason string
}

// Error is a sentence for the user.
func (e *TextError) Error() string { return "the " + e.Field + " " + e.Reason }

// SinceError says what is wrong with the time from which to send missed events.
type SinceError struct{ Reason string }

// Error is a sentence for the user.
func (e *SinceError) Error() string { return e.Reason }
