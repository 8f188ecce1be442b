package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// checksAfterRestore look at what a restored backup may have wrong, and say what
// others will hear of it.
func checksAfterRestore() []check {
	return []check{
		{"recovery", checkRecovery},
		{"restored log", checkRestoredLog},
		{"restored positions", checkRestoredPositions},
		{"restored people", checkRestoredPeople},
		{"restored access", checkRestoredAccess},
		{"webhooks after the restore", checkOwed},
	}
}

// checkRecovery says whether the server has come out of the restore.
func checkRecovery(ctx context.Context, x *examination) ([]Finding, error) {
	var recovering, paused bool
	err := x.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END`).Scan(&recovering, &paused)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot ask whether the server recovers: %w", err)
	case paused:
		return []Finding{{
			Level: Error, Text: "the server has stopped at the moment that it restores to, and can only be read",
			Do: "if the restored log below is that of the right moment: SELECT pg_promote(); if not, change recovery_target_time (docs/operations/backup.md)",
		}}, nil
	case recovering:
		return []Finding{{Level: Error, Text: "the server is still restoring, or is a replica", Do: "wait until it has come to its end, and run this again"}}, nil
	}
	return ok("the server takes appends"), nil
}

// chained is how many of the newest entries of each workspace have their chain
// computed again.
const chained = 100

func checkRestoredLog(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		workspaces, entries, torn, broken int64
		newest                            *time.Time
	)
	// append --forgotten appends after the restore. The newest entry that forgets nobody is of before.
	err := x.pool.QueryRow(ctx, `
		SELECT count(*), coalesce(sum(h.position), 0), count(*) FILTER (WHERE h.position > 0 AND e.chain IS DISTINCT FROM h.chain),
		       coalesce(max(p.at), max(coalesce(e.appended_at, e.created_at)))
		  FROM log_head h LEFT JOIN event_log e ON e.workspace_id = h.workspace_id AND e.position = h.position
		  LEFT JOIN LATERAL (
		       SELECT coalesce(n.appended_at, n.created_at) AS at FROM event_log n
		        WHERE n.workspace_id = h.workspace_id AND n.type NOT IN ('`+domain.TypeClientForgotten+`', '`+domain.TypeContractorForgotten+`')
		        ORDER BY n.position DESC LIMIT 1) p ON true`).Scan(&workspaces, &entries, &torn, &newest)
	if err != nil {
		return nil, fmt.Errorf("cannot read the heads of the log: %w", err)
	}
	err = x.pool.QueryRow(ctx, `
		SELECT count(DISTINCT h.workspace_id) FROM log_head h CROSS JOIN LATERAL (
		       SELECT n.*, lag(n.chain) OVER (ORDER BY n.position) AS before, lag(n.position) OVER (ORDER BY n.position) AS below
		         FROM event_log n WHERE n.workspace_id = h.workspace_id AND n.position > h.position - $1) e
		 WHERE e.before IS NOT NULL AND (e.position <> e.below + 1
		       OR log_chain(e.before, e.position, e.id, e.type, log_stamp(e.created_at), e.data::text) <> e.chain)`, chained).Scan(&broken)
	if err != nil {
		return nil, fmt.Errorf("cannot compute the chain of the log: %w", err)
	}
	var list []Finding
	for _, f := range []struct {
		workspaces int64
		fault      string
	}{{torn, "does not end where it should"}, {broken, "has a wrong chain"}} {
		if f.workspaces == 0 {
			continue
		}
		list = append(list, Finding{
			Level: Error, Text: "the log of " + texts.Count(f.workspaces, "workspace", "workspaces") + " " + f.fault,
			Do: "the backup is not of one moment, or was altered: restore another one; ledgerfeed verify names the positions",
		})
	}
	if newest == nil {
		return append(list, Finding{Level: Warning, Text: "the log is empty", Do: "check that this is the right database"}), nil
	}
	if len(list) > 0 {
		return list, nil
	}
	return append(list, Finding{
		Level: Warning, Text: fmt.Sprintf("%s in %s; the newest %d of each have the right chain; the newest of all, other than entries that forget people, was appended on %s", texts.Count(entries, "entry", "entries"), texts.Count(workspaces, "workspace", "workspaces"), chained, domain.FormatTime(newest.UTC().Truncate(time.Millisecond))),
		Do: "ledgerfeed verify proves all of it. Tell producers that what they appended later is not in the log: producers that keep the ids offer it again. " +
			"A follower's cursor from after that time gets 400, which says what to read again. Older cursors continue",
	}), nil
}

func checkRestoredPositions(ctx context.Context, x *examination) ([]Finding, error) {
	var ahead, webhooks int64
	err := x.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE c.position > h.position),
		       (SELECT count(*) FROM webhook_cursor k JOIN log_head h USING (workspace_id) WHERE k.position > h.position)`).Scan(&ahead, &webhooks)
	if err != nil {
		return nil, fmt.Errorf("cannot compare positions: %w", err)
	}
	if ahead > 0 || webhooks > 0 {
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("%s and %s are ahead of the log", texts.Count(ahead, "checkpoint", "checkpoints"), texts.Count(webhooks, "webhook", "webhooks")),
			Do: "the backup is not of one moment: restore the whole database from one; ledgerfeed rebuild mends the read models alone",
		}}, nil
	}
	return ok("read models and webhooks are not ahead of the log; ledgerfeed verify compares every row"), nil
}

// checkRestoredPeople asks to forget again who was forgotten after the backup was made, until everybody
// on the list is forgotten in this log. Nobody can be back in a log without values about people.
func checkRestoredPeople(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		forgotten, pending int64
		values             bool
	)
	err := x.pool.QueryRow(ctx, `
		SELECT count(DISTINCT (workspace_id, subject)), count(DISTINCT (workspace_id, subject)) FILTER (WHERE ended_at IS NULL),
		       EXISTS (SELECT FROM log_detached)
		  FROM log_forgotten`).Scan(&forgotten, &pending, &values)
	if err != nil {
		return nil, fmt.Errorf("cannot count who was forgotten: %w", err)
	}
	text := texts.Count(forgotten, "person is", "people are") + " forgotten"
	if pending > 0 {
		text += fmt.Sprintf(", and for %d of them the deletion has not ended", pending)
	}
	name := x.list
	if name == "" {
		name = x.env.ForgottenList(x.db)
	}
	listed, back, err := x.restoredPeople(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.list == "":
		if !values {
			return ok("%s; the log has no values about anybody", text), nil
		}
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("%s in this log. People who were forgotten after the backup are back. There is no list of them at %s", text, name),
			Do: "before you tell producers anything: ledgerfeed append --forgotten FILE, with the list that ledgerfeed person forget or person list has written; then ledgerfeed doctor --after-restore --list FILE",
		}}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read who was forgotten: %w", err)
	case back > 0:
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("%s; on the list %s, %s back", text, name, texts.Count(back, "person is", "people are")),
			Do: "before you tell producers anything: ledgerfeed append --forgotten " + name,
		}}, nil
	}
	return ok("%s; so is everybody on the list %s (%s)", text, name, texts.Count(listed, "person", "people")), nil
}

// restoredPeople reads a list of people who were forgotten. It returns how many of them are of this log,
// and for how many of those the log lacks an entry of the list.
func (x *examination) restoredPeople(ctx context.Context, name string) (listed, back int64, err error) {
	text, err := texts.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	var workspaces, ids, subjects []string
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		d, s, err := eventlog.DecodeForgotten(line)
		if err != nil {
			return 0, 0, fmt.Errorf("%s, line %d: %w", name, number, err)
		}
		workspaces, ids, subjects = append(workspaces, d.WorkspaceID), append(ids, d.ID), append(subjects, s.String())
	}
	err = x.pool.QueryRow(ctx, `
		SELECT count(DISTINCT (l.workspace_id, l.subject)), count(DISTINCT (l.workspace_id, l.subject)) FILTER (WHERE NOT EXISTS (
		           SELECT FROM event_log e WHERE e.workspace_id = l.workspace_id AND e.id = l.id))
		  FROM unnest($1::text[], $2::text[], $3::text[]) AS l (workspace_id, id, subject)
		  JOIN workspace w USING (workspace_id) WHERE w.move IS DISTINCT FROM 'moved'`, workspaces, ids, subjects).Scan(&listed, &back)
	if err != nil {
		return 0, 0, fmt.Errorf("look who is back: %w", err)
	}
	return listed, back, nil
}

// checkRestoredAccess says who may do what, which has gone back, too.
func checkRestoredAccess(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		keys, people int64
		last         *time.Time
	)
	err := x.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM api_key WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)),
		       (SELECT count(*) FROM console_session WHERE expires_at > $1),
		       (SELECT max(at) FROM console_audit)`, x.env.Clock()).Scan(&keys, &people, &last)
	if err != nil {
		return nil, fmt.Errorf("cannot count what gives access: %w", err)
	}
	if keys == 0 && people == 0 {
		return ok("no key works, and nobody is signed in to the console"), nil
	}
	since := "The audit trail does not say when this last changed"
	if last != nil {
		since = "This last changed on " + domain.FormatTime(last.UTC().Truncate(time.Millisecond))
	}
	return []Finding{{
		Level: Warning, Text: fmt.Sprintf("%s and %s signed in to the console. %s", texts.Count(keys, "key works", "keys work"), texts.Count(people, "person is", "people are"), since),
		Do: "revoke, rotate or delete again what was revoked, rotated or deleted later (key revoke, webhook rotate-secret, webhook delete). What was made later is gone. DELETE FROM console_session signs everybody out",
	}}, nil
}

// checkOwed says what receivers will get when the service starts.
func checkOwed(ctx context.Context, x *examination) ([]Finding, error) {
	var on, events, expired, pending int64
	err := x.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM webhook WHERE state = 'on'), count(e.position), count(e.position) FILTER (WHERE e.created_at < $1),
		       (SELECT count(*) FROM webhook_waiting)
		  FROM webhook w
		  JOIN webhook_cursor k USING (workspace_id, webhook_id)
		  JOIN log_checkpoint c ON c.workspace_id = w.workspace_id AND c.consumer = '`+eventlog.ReadModels+`'
		  JOIN event_log e ON e.workspace_id = w.workspace_id AND e.position > k.position AND e.position <= c.position
		       AND e.public_event IS NOT NULL AND (w.events IS NULL OR e.type = ANY (w.events))
		 WHERE w.state = 'on'`, x.env.Clock().Add(-x.env.Settings.Retention)).Scan(&on, &events, &expired, &pending)
	if err != nil {
		return nil, fmt.Errorf("cannot count what webhooks are owed: %w", err)
	}
	text := fmt.Sprintf("%s on: %s will be sent, also some that were sent before the restore, and %s will be tried again",
		texts.Count(on, "webhook is", "webhooks are"), texts.Count(events-expired, "event", "events"), texts.Count(pending, "delivery", "deliveries"))
	if expired > 0 {
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("%s; %s past the retention, and will not be sent", text, texts.Count(expired, "event is", "events are")),
			Do: "a longer LEDGERFEED_RETENTION at the start lets them be sent",
		}}, nil
	}
	return ok("%s", text), nil
}
