package audit

import (
	"cmp"
	"fmt"
)

// Action is a kind of change.
type Action string

// The actions in the trail.
const (
	WorkspaceCreate     Action = "workspace.create"
	WorkspaceSet        Action = "workspace.set"
	WorkspaceTestMail   Action = "workspace.test_mail"
	WorkspaceMove       Action = "workspace.move"
	KeyCreate           Action = "key.create"
	KeyRotate           Action = "key.rotate"
	KeyRevoke           Action = "key.revoke"
	KeySetLimit         Action = "key.set_limit"
	KeyRename           Action = "key.rename"
	ProducerCreate      Action = "producer.create"
	ProducerRotate      Action = "producer.rotate"
	ProducerRevoke      Action = "producer.revoke"
	WebhookCreate       Action = "webhook.create"
	WebhookEdit         Action = "webhook.edit"
	WebhookDelete       Action = "webhook.delete"
	WebhookRotateSecret Action = "webhook.rotate_secret" //nolint:gosec // the name of an action
	WebhookTest         Action = "webhook.test"
	WebhookTurnOn       Action = "webhook.turn_on"
	WebhookTurnOff      Action = "webhook.turn_off"
	WebhookPause        Action = "webhook.pause"
	WebhookResume       Action = "webhook.resume"
	WebhookSendMissed   Action = "webhook.send_missed"
	WebhookRecover      Action = "webhook.recover"
	DeliveryResend      Action = "delivery.resend"
	DeliveryRetry       Action = "delivery.retry"
	EntrySkip           Action = "entry.skip"
	EntryRestore        Action = "entry.restore"
	EntryRetry          Action = "entry.retry"
	PersonForget        Action = "person.forget"
	AnomalyAcknowledge  Action = "anomaly.acknowledge"
	Rebuild             Action = "read_models.rebuild"
	RetentionSet        Action = "retention.set"
	SecretKeyRotate     Action = "secret_key.rotate"
	SecretKeyGiveUp     Action = "secret_key.give_up"
	LinkCreate          Action = "link.create"
	SignIn              Action = "session.sign_in"
	SignOut             Action = "session.sign_out"
)

// Actions are all of them.
func Actions() []Action {
	return []Action{
		WorkspaceCreate, WorkspaceSet, WorkspaceTestMail, WorkspaceMove, KeyCreate, KeyRotate, KeyRevoke,
		KeySetLimit, KeyRename, ProducerCreate, ProducerRotate, ProducerRevoke, WebhookCreate, WebhookEdit, WebhookDelete, WebhookRotateSecret,
		WebhookTest, WebhookTurnOn, WebhookTurnOff, WebhookPause, WebhookResume, WebhookSendMissed, WebhookRecover, DeliveryResend,
		DeliveryRetry, EntrySkip, EntryRestore, EntryRetry, PersonForget, AnomalyAcknowledge, Rebuild,
		RetentionSet, SecretKeyRotate, SecretKeyGiveUp, LinkCreate, SignIn,
		SignOut,
	}
}

// Label describes the action for people. An unknown action, from a newer program, is its own label.
func (a Action) Label() string { return cmp.Or(labels[a], string(a)) }

// labels has the label of each action.
//
//nolint:gochecknoglobals,gosec // a constant table, which has no secret
var labels = map[Action]string{
	WorkspaceCreate:     "Created workspace",
	WorkspaceSet:        "Changed workspace",
	WorkspaceTestMail:   "Sent a test mail",
	WorkspaceMove:       "Moved workspace",
	KeyCreate:           "Created API key",
	KeyRotate:           "Rotated API key",
	KeyRevoke:           "Revoked API key",
	KeySetLimit:         "Changed the limit of API key",
	KeyRename:           "Renamed API key",
	ProducerCreate:      "Created the producer's key",
	ProducerRotate:      "Rotated the producer's key",
	ProducerRevoke:      "Revoked the producer's key",
	WebhookCreate:       "Added webhook",
	WebhookEdit:         "Edited webhook",
	WebhookDelete:       "Deleted webhook",
	WebhookRotateSecret: "Rotated the secret of webhook",
	WebhookTest:         "Sent a test to webhook",
	WebhookTurnOn:       "Turned on webhook",
	WebhookTurnOff:      "Turned off webhook",
	WebhookPause:        "Paused webhook",
	WebhookResume:       "Resumed webhook",
	WebhookSendMissed:   "Sent missed events to webhook",
	WebhookRecover:      "Sent waiting and failed messages again to webhook",
	DeliveryResend:      "Sent again",
	DeliveryRetry:       "Tried again before its time",
	EntrySkip:           "Skipped entry",
	EntryRestore:        "Restored skipped entry",
	EntryRetry:          "Retried entry",
	PersonForget:        "Forgot a person",
	AnomalyAcknowledge:  "Acknowledged anomalies",
	Rebuild:             "Rebuilt read models",
	RetentionSet:        "Changed the retention",
	SecretKeyRotate:     "Rotated the key for webhooks' secrets",
	SecretKeyGiveUp:     "Gave up a lost key for webhooks' secrets",
	LinkCreate:          "Made a sign-in link",
	SignIn:              "Signed in",
	SignOut:             "Signed out",
}

// EntryName names an entry of the log as the object of a change.
func EntryName(position int64) string { return fmt.Sprintf("at position %d", position) }
