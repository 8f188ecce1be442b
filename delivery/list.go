package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

const webhookColumns = `w.webhook_id, w.workspace_id, w.url, w.name, w.description, w.standard_headers, w.events, CASE WHEN w.state = 'off' THEN 'off' ELSE 'on' END, w.paused_at, w.created_at, w.failing_since,
	w.turned_off_at, w.turned_off_for, CASE WHEN w.state = 'off' THEN coalesce(w.turned_off_since, w.failing_since) END, CASE WHEN w.state = 'off' THEN w.turned_off_reason END, w.old_secret_until, w.older_secrets_until, c.replay_until IS NOT NULL, c.expired,
	EXISTS (SELECT FROM secret_key k WHERE k.state = 'lost' AND k.fingerprint = substring(w.secret FOR 8)),
	(SELECT json_object_agg(t.outcome, t.n) FROM (
	        SELECT n.outcome, sum(n.attempts) AS n FROM attempt_rollup n
	         WHERE n.workspace_id = w.workspace_id AND n.step = 60 AND n.at > $2 AND n.webhook_id = w.webhook_id
	         GROUP BY n.outcome) t)`

// List returns a workspace's webhooks, the oldest first. Errors:
// *domain.UnknownWorkspaceError.
func (s *Store) List(ctx context.Context, workspaceID string) ([]Webhook, error) {
	var there bool
	if err := s.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM workspace WHERE workspace_id = $1)`, workspaceID).Scan(&there); err != nil {
		return nil, fmt.Errorf("look for workspace %s: %w", workspaceID, err)
	}
	if !there {
		return nil, &domain.UnknownWorkspaceError{WorkspaceID: workspaceID}
	}
	return s.webhooks(ctx, s.cfg.Pool, `w.workspace_id = $1`, workspaceID)
}

// Get returns one webhook. Errors: *UnknownWebhookError.
func (s *Store) Get(ctx context.Context, webhookID string) (*Webhook, error) {
	return s.get(ctx, s.cfg.Pool, webhookID)
}

// get is Get on db. Callers in a transaction pass it, so that they need no second connection.
func (s *Store) get(ctx context.Context, db querier, webhookID string) (*Webhook, error) {
	list, err := s.webhooks(ctx, db, `w.webhook_id = $1`, webhookID)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &UnknownWebhookError{webhookID}
	}
	return &list[0], nil
}

func (s *Store) webhooks(ctx context.Context, db querier, where, id string) ([]Webhook, error) {
	now := s.now()
	list, err := pg.Collect(ctx, db, func(row pgx.CollectableRow) (Webhook, error) { return scanWebhook(row, now) }, `
		SELECT `+webhookColumns+`
		  FROM webhook w JOIN webhook_cursor c ON c.workspace_id = w.workspace_id AND c.webhook_id = w.webhook_id
		 WHERE `+where+` ORDER BY w.created_at, w.webhook_id`, id, now.Add(-24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	if list == nil {
		list = []Webhook{}
	}
	return list, nil
}

func scanWebhook(row pgx.CollectableRow, now time.Time) (Webhook, error) {
	var (
		w               Webhook
		since, off, old *time.Time
		offSince        *time.Time
		paused          *time.Time
		reason          *string
		older           []time.Time
		secretLost      bool
	)
	err := row.Scan(&w.ID, &w.WorkspaceID, &w.URL, &w.Name, &w.Description, &w.Standard, &w.Events, &w.State, &paused, &w.CreatedAt.Time, &since, &off, &reason, &offSince, &w.TurnedOffReason, &old, &older, &w.SendingMissed, &w.ExpiredEvents, &secretLost, &w.Last24Hours)
	if err != nil {
		return w, err
	}
	w.CreatedAt.Time = w.CreatedAt.UTC()
	w.PausedAt, w.FailingSince, w.TurnedOffAt, w.TurnedOffSince = timeOf(paused), timeOf(since), timeOf(off), timeOf(offSince)
	if old != nil {
		older = slices.Insert(older, 0, *old)
	}
	w.OldSecretsUntil = []Time{}
	for _, until := range older {
		if until.After(now) {
			w.OldSecretsUntil = append(w.OldSecretsUntil, Time{until.UTC()})
			w.OldSecretUntil = latest(w.OldSecretUntil, until)
		}
	}
	if w.Events == nil {
		w.Events = []string{AllEvents}
	}
	counts := map[attempt.Outcome]int64{}
	for _, o := range attempt.Outcomes() {
		counts[o] = w.Last24Hours[o]
	}
	w.Last24Hours = counts
	w.Notice = notice(&w, reason, secretLost)
	return w, nil
}

// latest returns the later of two times.
func latest(a Time, b time.Time) Time {
	if b.After(a.Time) {
		return Time{b.UTC()}
	}
	return a
}

// notice says what needs attention about a webhook; nil: nothing. It uses only stored values,
// because a command may run with other settings than the service.
func notice(w *Webhook, reason *string, secretLost bool) *string {
	var text string
	switch {
	case secretLost:
		text = "Nothing is sent: its signing secret was lost with the key under which it was stored. " +
			"Rotate the secret and give the new one to the receiver; events are then sent from where they stopped."
	case !w.On() && orEmpty(w.TurnedOffReason) == turnedOffGone:
		text = fmt.Sprintf("Turned off on %s, because its receiver answered 410 (Gone) to two deliveries in a row: it wants no more messages.",
			readableTime(w.TurnedOffAt.Time))
	case !w.On():
		text = fmt.Sprintf("Turned off on %s, because every attempt had failed since %s. The last one: %s.",
			readableTime(w.TurnedOffAt.Time), readableTime(w.TurnedOffSince.Time), orEmpty(reason))
	case w.Paused():
		text = fmt.Sprintf("Paused since %s: nothing is sent until it is resumed. What has waited is then sent, starting with the oldest. "+
			"Events that are too old by then to be looked up are not sent.", readableTime(w.PausedAt.Time))
	case !w.FailingSince.IsZero():
		text = fmt.Sprintf("Failing since %s: no attempt has succeeded since then.",
			readableTime(w.FailingSince.Time))
	default:
		return nil
	}
	return &text
}

// turnedOffGone is the Webhook.TurnedOffReason after the receiver answered 410 (Gone).
const turnedOffGone = "gone"

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func readableTime(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
