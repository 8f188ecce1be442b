package supportbundle

// code is the part of a kept error that may be shown: PostgreSQL's code in it.
const code = `CASE WHEN error IS NULL THEN NULL ELSE coalesce(substring(error FROM 'SQLSTATE ([0-9A-Z]{5})'), 'other') END`

// serviceQuestions are about what the service keeps.
func serviceQuestions() []question {
	return []question{
		{"schema.json", "the newest migrations", `
			SELECT version_id AS migration, is_applied AS applied, tstamp AS at FROM goose_db_version ORDER BY id DESC LIMIT 20`},
		{"status.json", "how far the log, the read models and mail are, over all workspaces", `
			SELECT count(*) AS workspaces, sum(h.position)::bigint AS entries, sum(c.position)::bigint AS visible, sum(h.position - c.position)::bigint AS lag_entries,
			       count(*) FILTER (WHERE c.position < h.position) AS behind, count(*) FILTER (WHERE c.failures > 0) AS failing, count(*) FILTER (WHERE c.quarantined) AS quarantined,
			       array_agg(DISTINCT c.rules) AS rules,
			       (SELECT count(*) FROM log_skip) AS skipped_entries,
			       (SELECT count(*) FROM replay_audit WHERE differences > 0) AS differing, (SELECT min(audited_at) FROM replay_audit) AS oldest_audit,
			       (SELECT count(*) FROM webhook_mail) AS mails, (SELECT count(*) FROM webhook_mail WHERE error IS NOT NULL) AS mails_failing,
			       (SELECT count(*) FROM webhook_instance WHERE lease_until > clock_timestamp()) AS delivering_processes,
			       (SELECT count(*) FROM api_key WHERE revoked_at IS NULL) AS keys, (SELECT count(*) FROM console_session WHERE expires_at > now()) AS sessions
			  FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE c.consumer = 'read_models'`},
		{"workspaces.json", "the 200 workspaces that are worst off, or largest", `
			SELECT c.workspace_id AS workspace, c.position, h.position AS head, h.position - c.position AS lag_entries, c.quarantined, c.failures, c.rules, c.moved_at, c.retry_at,
			       ` + code + ` AS error, (SELECT count(*) FROM anomaly a WHERE a.workspace_id = c.workspace_id) AS anomalies
			  FROM log_checkpoint c JOIN log_head h USING (workspace_id) WHERE c.consumer = 'read_models'
			 ORDER BY c.quarantined DESC, c.failures DESC, h.position - c.position DESC, h.position DESC, c.workspace_id LIMIT 200`},
		{"failures.json", "failed segments by the type of their first entry and PostgreSQL's code", `
			SELECT e.type, ` + code + ` AS error, count(*) AS segments, sum(f.times)::bigint AS times, min(f.first_at) AS first_at, max(f.last_at) AS last_at
			  FROM log_failure f JOIN event_log e ON e.workspace_id = f.workspace_id AND e.position = f.from_position
			 GROUP BY 1, 2 ORDER BY times DESC, 1, 2 LIMIT 200`},
		{"anomalies.json", "anomalies by reason and type of entry", `
			SELECT a.reason, e.type, count(*) AS entries, count(DISTINCT a.workspace_id) AS workspaces
			  FROM anomaly a JOIN event_log e ON e.workspace_id = a.workspace_id AND e.position = a.position
			 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 200`},
		{"webhooks.json", "webhooks by state", `
			SELECT state, failing_since IS NOT NULL AS failing, warned, count(*) AS webhooks, min(failing_since) AS since FROM webhook GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`},
		{"lags.json", "the 200 webhooks that are furthest behind", `
			SELECT w.webhook_id AS webhook, w.workspace_id AS workspace, w.state, w.failing_since, k.position, c.position AS visible, c.position - k.position AS lag_entries,
			       k.holder IS NOT NULL AS held, k.expired, k.replay_until - k.replay_position AS missed_left,
			       (SELECT count(*) FROM webhook_waiting p WHERE p.workspace_id = w.workspace_id AND p.webhook_id = w.webhook_id) AS waiting
			  FROM webhook w JOIN webhook_cursor k USING (workspace_id, webhook_id)
			  JOIN log_checkpoint c ON c.workspace_id = w.workspace_id AND c.consumer = 'read_models'
			 ORDER BY c.position - k.position DESC, w.workspace_id, w.webhook_id LIMIT 200`},
		{"attempts.json", "attempts to deliver by hour and outcome", `
			SELECT hour, outcome, sum(attempts)::bigint AS attempts, count(*) AS webhooks FROM webhook_hour GROUP BY 1, 2 ORDER BY 1 DESC, 2 LIMIT 200`},
	}
}
