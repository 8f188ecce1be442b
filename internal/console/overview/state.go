package overview

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

const (
	// soon is how long before its end a key is shown as about to expire.
	soon = 14 * 24 * time.Hour
	// mostKeys bounds the keys that are listed as about to expire, and those whose use
	// is shown.
	mostKeys = 10
	// late is how far the data may be behind without being worth a word.
	late = time.Minute
)

// state is what a workspace looks like now.
type state struct {
	Webhooks    []delivery.Webhook
	On          int
	Failing     int
	Paused      int
	Off         int
	Mail        bool                         // the service sends mail
	Told        int                          // mail addresses that are told about webhooks
	Backlogs    map[string]*delivery.Backlog // of those that are paused, by id
	Expiring    []expiringKey
	Requests    int64 // since midnight, UTC
	Errors      int64 // of them, with a status of 400 or above
	Refused     int64
	Events      int64
	Behind      int64 // entries that the data does not have yet
	Waiting     time.Duration
	Quarantined bool // the data stopped before an entry that fails
}

// Troubled are the webhooks that are failing, paused or off.
func (s *state) Troubled() (list []delivery.Webhook) {
	for i := range s.Webhooks {
		if w := &s.Webhooks[i]; !w.On() || w.Paused() || !w.FailingSince.IsZero() {
			list = append(list, *w)
		}
	}
	return list
}

// Late tells whether the data is further behind than it usually is.
func (s *state) Late() bool { return s.Waiting >= late }

// expiringKey is a key that is about to expire.
type expiringKey struct {
	ID, Name  string
	ExpiresAt time.Time
}

func (p *Pages) state(r *web.Request) (*state, error) {
	ctx, workspaceID := r.Context(), r.Session.WorkspaceID
	s := &state{Mail: p.Mail, Backlogs: map[string]*delivery.Backlog{}}
	workspace, err := p.Workspaces.Get(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if workspace.NotifyEmail != "" {
		s.Told = strings.Count(workspace.NotifyEmail, ",") + 1
	}
	if s.Webhooks, err = p.Webhooks.List(ctx, workspaceID); err != nil {
		return nil, err
	}
	for i := range s.Webhooks {
		switch w := &s.Webhooks[i]; {
		case !w.On():
			s.Off++
		case w.Paused():
			s.Paused++
			if s.Backlogs[w.ID], err = w.Backlog(ctx, p.Webhooks); err != nil {
				return nil, err
			}
		case !w.FailingSince.IsZero():
			s.Failing++
		default:
			s.On++
		}
	}
	if s.Expiring, err = p.expiring(ctx, workspaceID, r.Now); err != nil {
		return nil, err
	}
	if err := p.countToday(ctx, workspaceID, r.Now, s); err != nil {
		return nil, err
	}
	progress, err := eventlog.ReadProgress(ctx, p.Pool, eventlog.ReadModels, workspaceID)
	if err != nil {
		return nil, err
	}
	for i := range progress {
		s.Behind, s.Waiting, s.Quarantined = progress[i].Head-progress[i].Position, progress[i].Waiting, progress[i].Quarantined
	}
	return s, nil
}

func (p *Pages) countToday(ctx context.Context, workspaceID string, now time.Time, s *state) error {
	today := rollup.Last(now, 24*time.Hour, 1)
	requests, err := p.Counts.Requests(ctx, workspaceID, today)
	if err != nil {
		return err
	}
	for _, c := range requests {
		switch c.Kind {
		case rollup.KindRefused:
			s.Refused += c.N
			continue
		case rollup.KindClientError, rollup.KindServerError:
			s.Errors += c.N
		}
		s.Requests += c.N
	}
	events, err := p.Counts.Events(ctx, workspaceID, today)
	if err != nil {
		return err
	}
	for _, c := range events {
		s.Events += c.N
	}
	return nil
}

// expiring returns the keys that expire soon, the first to do so first.
func (p *Pages) expiring(ctx context.Context, workspaceID string, now time.Time) ([]expiringKey, error) {
	rows, err := p.Pool.Query(ctx, `
		SELECT key_id, name, expires_at FROM api_key
		 WHERE workspace_id = $1 AND revoked_at IS NULL AND expires_at > $2 AND expires_at <= $3 ORDER BY expires_at, key_id LIMIT $4`,
		workspaceID, now, now.Add(soon), mostKeys)
	if err != nil {
		return nil, fmt.Errorf("cannot look for keys that expire: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[expiringKey])
	if err != nil {
		return nil, fmt.Errorf("cannot look for keys that expire: %w", err)
	}
	return list, nil
}

// NeedsAttention tells whether a webhook is failing, paused or off, a key expires soon, or the
// data stopped before an entry that fails. It reads a few rows, for the menu of every page.
func (p *Pages) NeedsAttention(ctx context.Context, s *session.Session, now time.Time) (needed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.BesideTimeout)
	defer cancel()
	err = p.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM webhook WHERE workspace_id = $1 AND (state <> 'on' OR failing_since IS NOT NULL))
		    OR EXISTS (SELECT FROM api_key WHERE workspace_id = $1 AND revoked_at IS NULL AND expires_at > $2 AND expires_at <= $3)
		    OR EXISTS (SELECT FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $4 AND quarantined)`,
		s.WorkspaceID, now, now.Add(soon), eventlog.ReadModels).Scan(&needed)
	if err != nil {
		return false, fmt.Errorf("cannot look what needs attention: %w", err)
	}
	return needed, nil
}
