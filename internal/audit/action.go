package audit

import "fmt"

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
		KeySetLimit, KeyRename, WebhookCreate, WebhookEdit, WebhookDelete, WebhookRotateSecret,
		WebhookTest, WebhookTurnOn, WebhookTurnOff, WebhookPause, WebhookResume, WebhookSendMissed, WebhookRecover, DeliveryResend,
		DeliveryRetry, EntrySkip, EntryRestore, EntryRetry, PersonForget, AnomalyAcknowledge, Rebuild,
		RetentionSet, SecretKeyRotate, SecretKeyGiveUp, LinkCreate, SignIn,
		SignOut,
	}
}

// Label describes the action for people. An unknown action, from a newer program, is its own label.
func (a Action) Label() string {
	switch a {
	case WorkspaceCreate:
		return "Created workspace"
	case WorkspaceSet:
		return "Changed workspace"
	case WorkspaceTestMail:
		return "Sent a test mail"
	case WorkspaceMove:
		return "Moved workspace"
	case KeyCreate:
		return "Created API key"
	case KeyRotate:
		return "Rotated API key"
	case KeyRevoke:
		return "Revoked API key"
	case KeySetLimit:
		return "Changed the limit of API key"
	case KeyRename:
		return "Renamed API key"
	case WebhookCreate:
		return "Added webhook"
	case WebhookEdit:
		return "Edited webhook"
	case WebhookDelete:
		return "Deleted webhook"
	case WebhookRotateSecret:
		return "Rotated the secret of webhook"
	case WebhookTest:
		return "Sent a test to webhook"
	case WebhookTurnOn:
		return "Turned on webhook"
	case WebhookTurnOff:
		return "Turned off webhook"
	case WebhookPause:
		return "Paused webhook"
	case WebhookResume:
		return "Resumed webhook"
	case WebhookSendMissed:
		return "Sent missed events to webhook"
	case WebhookRecover:
		return "Sent again what waited for or failed to webhook"
	case DeliveryResend:
		return "Sent again"
	case DeliveryRetry:
		return "Tried again before its time"
	case EntrySkip:
		return "Skipped entry"
	case EntryRestore:
		return "Restored skipped entry"
	case EntryRetry:
		return "Tried again the entry"
	case PersonForget:
		return "Forgot a person"
	case AnomalyAcknowledge:
		return "Acknowledged anomalies"
	case Rebuild:
		return "Rebuilt read models"
	case RetentionSet:
		return "Changed the retention"
	case SecretKeyRotate:
		return "Rotated the key for webhooks' secrets"
	case SecretKeyGiveUp:
		return "Gave up a lost key for webhooks' secrets"
	case LinkCreate:
		return "Made a sign-in link"
	case SignIn:
		return "Signed in"
	case SignOut:
		return "Signed out"
	}
	return string(a)
}

// EntryName names an entry of the log as the object of a change.
func EntryName(position int64) string { return fmt.Sprintf("at position %d", position) }
