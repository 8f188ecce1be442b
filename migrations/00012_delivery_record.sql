-- What came of attempts is recorded by single statements in one round trip and
-- transaction, instead of by a function with thirty parameters. The check of the
-- caller's lease is a statement of its own, which fails the whole transaction.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_lease IS 'Fails with SQLSTATE LF007 unless a process that delivers still has its lease.';

DROP FUNCTION webhook_record;

ALTER INDEX webhook_delivery_troubled RENAME TO webhook_delivery_not_succeeded;

COMMENT ON TABLE webhook_cursor IS 'How far each webhook has come in its workspace''s log, and which process delivers to it.';
COMMENT ON COLUMN webhook_cursor.position IS 'Every entry up to here was sent to the webhook once, or is not for it. Later ones that have a row in webhook_delivery were sent, too.';
COMMENT ON COLUMN webhook_cursor.replay_position IS 'While missed events are sent: all of them up to here are done.';
COMMENT ON COLUMN webhook_cursor.holder IS 'The webhook_instance that delivers to it, as long as the lease of that lasts; null: none does.';
COMMENT ON TABLE webhook_instance IS 'The processes that deliver. Each has one lease for all webhooks that it holds, so that renewing it writes one row.';
COMMENT ON COLUMN webhook_instance.lease_until IS 'By the database''s clock. Afterwards other processes take over its webhooks.';
COMMENT ON COLUMN webhook.version IS 'Raised by every change that a user makes, so that the process that delivers reads the row again.';
COMMENT ON COLUMN webhook.epoch IS 'Raised when it is turned off or on. What was decided or is pending under an older epoch is cancelled.';
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on; null: it is not failing.';
COMMENT ON COLUMN webhook.failure_marks IS 'Unix milliseconds of failed attempts: the first and last of each span, enough to tell whether one fell into each third of the time after which it is turned off.';
COMMENT ON COLUMN webhook.old_secret IS 'The secret before the last rotation, sealed in the same way; it signs too until old_secret_until.';
COMMENT ON COLUMN webhook.old_secret_until IS 'Until then messages are signed with the old secret as well; null: there was no rotation.';
COMMENT ON COLUMN webhook.events IS 'The event types that it chose; null: all, including those of later versions.';
COMMENT ON TABLE webhook IS 'Addresses that events are sent to, at most five for a workspace.';
COMMENT ON TABLE webhook_waiting IS 'Pending deliveries: after a failed attempt or "Send again".';
COMMENT ON COLUMN webhook_waiting.next_attempt_at IS 'The next attempt is not made before this time.';
COMMENT ON COLUMN webhook_waiting.created_at IS 'created_at of the row in webhook_delivery, by which that is found.';
COMMENT ON COLUMN webhook_waiting.before IS 'Attempts made before the retry schedule began again: those of a failed delivery that is sent as missed.';
COMMENT ON COLUMN webhook_waiting.once IS 'True for "Send again": there is no further attempt.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when the attempt failed. A delivery of an older epoch is to be cancelled.';
COMMENT ON TABLE webhook_delivery IS 'Every delivery within the retention, partitioned by day; whole days are dropped.';
COMMENT ON COLUMN webhook_delivery.position IS 'Position of the event in the log, which has the body.';
COMMENT ON COLUMN webhook_delivery.created_at IS 'Time of the first attempt.';
COMMENT ON COLUMN webhook_delivery.next_attempt_at IS 'Time of the next attempt of a pending delivery.';
COMMENT ON TABLE webhook_hour IS 'Attempts of each webhook by hour and outcome, for the counts of the last 24 hours. Written once a second at most.';
COMMENT ON COLUMN webhook_hour.attempts IS 'Number of attempts.';
COMMENT ON COLUMN webhook_hour.outcome IS 'Outcome of the attempts.';
COMMENT ON COLUMN webhook_hour.hour IS 'Start of the hour.';
COMMENT ON TABLE webhook_mail IS 'Mails to finance teams that are not sent yet. A sent one is deleted.';
COMMENT ON COLUMN webhook_mail.attempts IS 'How often sending was tried.';
COMMENT ON COLUMN webhook_mail.mail_id IS 'Derived from what the mail is about, so that it is stored once.';
COMMENT ON COLUMN webhook_mail.next_attempt_at IS 'It is not sent before this time; moved ahead while a process sends it.';
COMMENT ON COLUMN webhook_mail.error IS 'Error of the last attempt.';
COMMENT ON FUNCTION webhook_cancel IS 'Cancels up to n deliveries that are pending under an older epoch of the webhook; returns how many.';
COMMENT ON FUNCTION webhook_delivery_days IS 'Makes and drops the daily partitions of webhook_delivery. Fails with lock_not_available while a long transaction reads the history; call it again later.';

-- +goose Down
ALTER INDEX webhook_delivery_not_succeeded RENAME TO webhook_delivery_troubled;
DROP FUNCTION webhook_lease;
-- +goose StatementBegin
CREATE FUNCTION webhook_record(
    me text,
    a_w text[], a_h text[], a_pos bigint[], a_made timestamptz[], a_event text[], a_type text[],
    a_n integer[], a_before integer[], a_state text[], a_next timestamptz[], a_epoch integer[], a_attempt jsonb[],
    c_w text[], c_h text[], c_epoch integer[], c_version integer[], c_pos bigint[], c_replay bigint[],
    f_w text[], f_h text[], f_epoch integer[], f_since timestamptz[], f_marks text[], f_warned integer[],
    n_w text[], n_h text[], n_hour timestamptz[], n_outcome text[], n_count bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = me AND i.lease_until > clock_timestamp()) THEN
        RAISE EXCEPTION 'the lease of % is over', me USING ERRCODE = 'LF007';
    END IF;
    IF cardinality(a_w) > 0 THEN
        INSERT INTO webhook_delivery (workspace_id, webhook_id, position, created_at, event_id, event_type, state, next_attempt_at, attempts)
        SELECT a.w, a.h, a.pos, a.made, a.event, a.type, a.state, a.next, jsonb_build_array(a.attempt)
          FROM unnest(a_w, a_h, a_pos, a_made, a_event, a_type, a_n, a_state, a_next, a_attempt)
               AS a (w, h, pos, made, event, type, n, state, next, attempt)
         WHERE a.n = 1
            ON CONFLICT DO NOTHING;
        FOR i IN 1..cardinality(a_w) LOOP
            CONTINUE WHEN a_n[i] = 1;
            UPDATE webhook_delivery d
               SET state = a_state[i], next_attempt_at = a_next[i], attempts = d.attempts || a_attempt[i]
             WHERE d.workspace_id = a_w[i] AND d.webhook_id = a_h[i] AND d.position = a_pos[i] AND d.created_at = a_made[i]
               AND jsonb_array_length(d.attempts) = a_n[i] - 1;
            IF a_state[i] <> 'pending' THEN
                DELETE FROM webhook_waiting q
                 WHERE q.workspace_id = a_w[i] AND q.webhook_id = a_h[i] AND q.position = a_pos[i] AND q.attempts < a_n[i];
            END IF;
        END LOOP;
    END IF;
    IF 'pending' = ANY (a_state) THEN
        INSERT INTO webhook_waiting AS q (workspace_id, webhook_id, position, created_at, attempts, before, next_attempt_at, epoch)
        SELECT a.w, a.h, a.pos, a.made, a.n, a.before, a.next, a.epoch
          FROM unnest(a_w, a_h, a_pos, a_made, a_n, a_before, a_state, a_next, a_epoch) AS a (w, h, pos, made, n, before, state, next, epoch)
          JOIN webhook w ON w.workspace_id = a.w AND w.webhook_id = a.h
         WHERE a.state = 'pending'
            ON CONFLICT (workspace_id, webhook_id, position) DO UPDATE
               SET attempts = excluded.attempts, before = excluded.before, next_attempt_at = excluded.next_attempt_at, once = false, epoch = excluded.epoch
             WHERE q.attempts < excluded.attempts;
    END IF;
    IF cardinality(c_w) > 0 THEN
        UPDATE webhook_cursor c
           SET position = greatest(c.position, m.pos),
               replay_position = CASE WHEN m.replay IS NULL OR m.version <> w.version THEN c.replay_position
                                      WHEN m.replay < c.replay_until THEN m.replay END,
               replay_until = CASE WHEN m.version = w.version AND m.replay >= c.replay_until THEN NULL ELSE c.replay_until END
          FROM unnest(c_w, c_h, c_epoch, c_version, c_pos, c_replay) AS m (w, h, epoch, version, pos, replay)
          JOIN webhook w ON w.workspace_id = m.w AND w.webhook_id = m.h AND w.epoch = m.epoch
         WHERE c.workspace_id = m.w AND c.webhook_id = m.h AND c.holder = me;
    END IF;
    IF cardinality(f_w) > 0 THEN
        UPDATE webhook w SET failing_since = f.since, failure_marks = f.marks::bigint[], warned = f.warned
          FROM unnest(f_w, f_h, f_epoch, f_since, f_marks, f_warned) AS f (w, h, epoch, since, marks, warned)
         WHERE w.workspace_id = f.w AND w.webhook_id = f.h AND w.epoch = f.epoch;
    END IF;
    IF cardinality(n_w) > 0 THEN
        INSERT INTO webhook_hour AS t (workspace_id, webhook_id, hour, outcome, attempts)
        SELECT n.w, n.h, n.hour, n.outcome, n.count
          FROM unnest(n_w, n_h, n_hour, n_outcome, n_count) AS n (w, h, hour, outcome, count)
          JOIN webhook w ON w.workspace_id = n.w AND w.webhook_id = n.h
            ON CONFLICT (workspace_id, webhook_id, hour, outcome) DO UPDATE SET attempts = t.attempts + excluded.attempts;
    END IF;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_record IS 'Records what came of attempts. SQLSTATE LF007: the caller''s lease is over, and nothing was recorded.';
COMMENT ON TABLE webhook_cursor IS 'How far each webhook has come in its workspace''s log, and who delivers it.';
COMMENT ON COLUMN webhook_cursor.position IS 'Every entry up to here was sent to the webhook once, or is not for it. Those after it that have a row in webhook_delivery were sent, too.';
COMMENT ON COLUMN webhook_cursor.replay_position IS 'While missed events are sent: all up to here are done.';
COMMENT ON COLUMN webhook_cursor.holder IS 'The webhook_instance that delivers it, as long as that one''s lease lasts; null: nobody does.';
COMMENT ON TABLE webhook_instance IS 'The processes that deliver. One lease a process covers all webhooks it holds, so that renewing costs one row.';
COMMENT ON COLUMN webhook_instance.lease_until IS 'By the database''s clock. After it, others take its webhooks over.';
COMMENT ON COLUMN webhook.version IS 'Raised by every change a user makes, so that whoever delivers reads the row again.';
COMMENT ON COLUMN webhook.epoch IS 'Raised whenever it goes off or on. What was decided or waits under an older epoch is void.';
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on; null: it does not fail.';
COMMENT ON COLUMN webhook.failure_marks IS 'Unix milliseconds of failed attempts, thinned out: enough to know whether one fell into each third of the time after which it is turned off.';
COMMENT ON COLUMN webhook.old_secret IS 'The secret before the last rotation, sealed alike; signs too until old_secret_until.';
COMMENT ON COLUMN webhook.old_secret_until IS 'Until then messages are signed with the old secret too; null: there was no rotation.';
COMMENT ON COLUMN webhook.events IS 'The event types it chose; null: all, also those of later versions.';
COMMENT ON TABLE webhook IS 'Addresses that events are sent to, at most five a workspace.';
COMMENT ON TABLE webhook_waiting IS 'Deliveries that wait for their next attempt; only failures and "Send again" get here.';
COMMENT ON COLUMN webhook_waiting.next_attempt_at IS 'Not before this moment is it tried again.';
COMMENT ON COLUMN webhook_waiting.created_at IS 'That of the row in webhook_delivery, which it finds it by.';
COMMENT ON COLUMN webhook_waiting.before IS 'How many of them were made before the retry schedule was begun: those of a failed delivery that is sent again as missed.';
COMMENT ON COLUMN webhook_waiting.once IS 'True for "Send again": whatever comes of the attempt, there is no further one.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when it failed. With an older one it is to be cancelled.';
COMMENT ON TABLE webhook_delivery IS 'Every delivery of the last thirty days: one row each, partitioned by day, whole days dropped.';
COMMENT ON COLUMN webhook_delivery.position IS 'The event''s position in the log, where its body is.';
COMMENT ON COLUMN webhook_delivery.created_at IS 'When it was sent for the first time.';
COMMENT ON COLUMN webhook_delivery.next_attempt_at IS 'When a pending one is tried again.';
COMMENT ON TABLE webhook_hour IS 'Attempts of each webhook by hour and outcome, for the count of the last 24 hours. Written every second at most.';
COMMENT ON COLUMN webhook_hour.attempts IS 'How many did.';
COMMENT ON COLUMN webhook_hour.outcome IS 'How the attempts ended.';
COMMENT ON COLUMN webhook_hour.hour IS 'Begin of the hour, by the clock.';
COMMENT ON TABLE webhook_mail IS 'Mails to the finance team that are not sent yet. A sent one is deleted.';
COMMENT ON COLUMN webhook_mail.attempts IS 'How often sending it was tried.';
COMMENT ON COLUMN webhook_mail.mail_id IS 'Made from what the mail is about, so that it is queued once.';
COMMENT ON COLUMN webhook_mail.next_attempt_at IS 'Not before this moment is it tried; moved ahead while somebody sends it.';
COMMENT ON COLUMN webhook_mail.error IS 'Why the last attempt failed.';
COMMENT ON FUNCTION webhook_cancel IS 'Cancels deliveries that wait under an older epoch of the webhook; returns how many.';
COMMENT ON FUNCTION webhook_delivery_days IS 'Makes and drops the daily partitions of webhook_delivery. Fails with lock_not_available while a long transaction reads the history; call it again later.';
