-- Programs of version 0.1.0 record attempts by this function, which migration 12 had
-- dropped. During an upgrade they run on this schema, and an operator who goes back runs
-- them on it again: without the function they send a webhook's first messages, cannot
-- record them, and send nothing else, and the same messages again after each start.

-- +goose Up
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
    PERFORM webhook_lease(me);
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
COMMENT ON FUNCTION webhook_record IS 'Records what came of attempts, for programs of version 0.1.0. SQLSTATE LF007: the caller''s lease is over, and nothing was recorded.';

-- +goose Down
DROP FUNCTION webhook_record;
