-- Functions that run on distributed tables, too. An UPDATE that sets a column to an element of
-- an array ends the server process of Citus 13.2 with a segmentation fault; a program of
-- version 0.1.0 that is still running when the tables are distributed would cause that.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_record(
    me text,
    a_w text[], a_h text[], a_pos bigint[], a_made timestamptz[], a_event text[], a_type text[], a_n integer[], a_before integer[], a_state text[], a_next timestamptz[], a_epoch integer[], a_attempt jsonb[],
    c_w text[], c_h text[], c_epoch integer[], c_version integer[], c_pos bigint[], c_replay bigint[],
    f_w text[], f_h text[], f_epoch integer[], f_since timestamptz[], f_marks text[], f_warned integer[],
    n_w text[], n_h text[], n_hour timestamptz[], n_outcome text[], n_count bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_w text; v_h text; v_pos bigint; v_made timestamptz; v_n integer; v_epoch integer;
    v_state text; v_next timestamptz; v_attempt jsonb; v_marks bigint[];
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
            v_w := a_w[i]; v_h := a_h[i]; v_pos := a_pos[i]; v_made := a_made[i]; v_n := a_n[i];
            v_state := a_state[i]; v_next := a_next[i]; v_attempt := a_attempt[i];
            UPDATE webhook_delivery d
               SET state = v_state, next_attempt_at = v_next, attempts = d.attempts || v_attempt
             WHERE d.workspace_id = v_w AND d.webhook_id = v_h AND d.position = v_pos AND d.created_at = v_made
               AND jsonb_array_length(d.attempts) = v_n - 1;
            IF v_state <> 'pending' THEN
                DELETE FROM webhook_waiting q
                 WHERE q.workspace_id = v_w AND q.webhook_id = v_h AND q.position = v_pos AND q.attempts < v_n;
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
        FOR i IN 1..cardinality(f_w) LOOP
            v_w := f_w[i]; v_h := f_h[i]; v_epoch := f_epoch[i]; v_next := f_since[i]; v_marks := f_marks[i]; v_n := f_warned[i];
            UPDATE webhook w SET failing_since = v_next, failure_marks = v_marks, warned = v_n
             WHERE w.workspace_id = v_w AND w.webhook_id = v_h AND w.epoch = v_epoch;
        END LOOP;
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_record(
    me text,
    a_w text[], a_h text[], a_pos bigint[], a_made timestamptz[], a_event text[], a_type text[], a_n integer[], a_before integer[], a_state text[], a_next timestamptz[], a_epoch integer[], a_attempt jsonb[],
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
