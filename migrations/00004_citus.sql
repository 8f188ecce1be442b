-- The schema works as a distributed schema of Citus, too (docs/operations/cells.md, "Citus"). There,
-- functions in what changes rows must not be volatile, tableoid and the type of a row are those of a
-- shard, a default cannot name its own table, and what is inserted from a table comes from a
-- materialized CTE.

-- +goose Up
-- log_clock() itself stays volatile: only so PostgreSQL puts clock_timestamp() in its place, which
-- saves each append some 0.1 ms.
CREATE FUNCTION log_clock_stable() RETURNS timestamptz LANGUAGE sql STABLE RETURN log_clock();
COMMENT ON FUNCTION log_clock_stable() IS 'log_clock() for statements that change rows.';

-- Processes always say of which table their lease is.
ALTER TABLE webhook_instance ALTER of_table DROP DEFAULT;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time() AND i.of_table = 'webhook_instance'::regclass) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Not a RETURN, which Citus cannot plan where it reads a table.
CREATE FUNCTION log_may_forget(w text, at bigint, ended timestamptz, seen bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ended IS NULL AND at <= seen AND NOT EXISTS (
        SELECT FROM log_skip k WHERE k.workspace_id = w AND k.consumer = 'read_models' AND k.position = at)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_may_forget(text, bigint, timestamptz, bigint) IS 'Whether the deletion of an entry at a position goes on: the read models are at seen, and have had the effect of the entry.';

-- +goose StatementBegin
-- It deletes the detached values of one slice of positions, of everybody whom an entry of the workspace
-- forgets and whose deletion has not ended. The read models must have that entry: before, their rows
-- follow from these values. It needs no lock on the head: values are never added to positions that
-- exist. Rows are read along primary keys, whatever the statistics say.
CREATE OR REPLACE FUNCTION log_forget(w text, slice integer, OUT more boolean) LANGUAGE plpgsql
SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    subjects  text[];
    positions bigint[];
    below     bigint;
    upto      bigint;
    now       timestamptz := clock_timestamp();
    seen      bigint := (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = w AND c.consumer = 'read_models');
BEGIN
    -- Those who came later wait for the pass that is under way, so that it ends.
    SELECT array_agg(g.subject), array_agg(g.position), min(g.reached), least(min(g.reached) + greatest(slice, 1), max(g.position))
      INTO subjects, positions, below, upto FROM (
           SELECT f.* FROM log_forgotten f WHERE f.workspace_id = w AND log_may_forget(w, f.position, f.ended_at, seen)
              AND (f.reached > 0 OR NOT EXISTS (SELECT FROM log_forgotten o WHERE o.workspace_id = w AND o.reached > 0 AND log_may_forget(w, o.position, o.ended_at, seen)))
              FOR UPDATE SKIP LOCKED) AS g;
    IF subjects IS NULL THEN
        more := false;
        RETURN;
    END IF;
    PERFORM set_config('ledgerfeed.removes', w, true); -- the triggers see that only this workspace is concerned
    WITH theirs AS (
        SELECT d.position, f.subject, f.position AS forgotten FROM log_detached d
         CROSS JOIN LATERAL unnest(string_to_array(d.subject, ' ')) AS s (subject)
          JOIN unnest(subjects, positions) AS f (subject, position) ON f.subject = s.subject AND f.position > d.position
         WHERE d.workspace_id = w AND d.position > below AND d.position <= upto),
    gone AS (
        DELETE FROM log_detached d WHERE d.workspace_id = w AND d.position > below AND d.position <= upto
           AND d.position = ANY (ARRAY(SELECT t.position FROM theirs t)))
    UPDATE log_forgotten g
       SET reached = greatest(g.reached, least(upto, g.position)),
           deleted = g.deleted + (SELECT count(*) FROM theirs t WHERE t.subject = g.subject AND t.forgotten = g.position),
           ended_at = CASE WHEN upto >= g.position THEN now END
      FROM unnest(subjects, positions) AS k (subject, position)
     WHERE g.workspace_id = w AND g.subject = k.subject AND g.position = k.position;
    PERFORM set_config('ledgerfeed.removes', '', true);
    more := EXISTS (SELECT FROM log_forgotten g WHERE g.workspace_id = w AND log_may_forget(w, g.position, g.ended_at, seen));
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
-- It takes the outcomes of log_append, so that it runs after it, and records nothing of what was
-- not appended. An append does not wait for a table that somebody has locked.
CREATE OR REPLACE FUNCTION log_trace(w text, ids text[], traces text[], outcomes text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET enable_sort = off SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(traces, outcomes) AS t (trace, outcome) WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55) THEN
        RETURN;
    END IF;
    LOCK TABLE append_trace IN ROW EXCLUSIVE MODE NOWAIT;
    WITH new AS MATERIALIZED (
        SELECT DISTINCT ON (t.id) w, t.id, t.trace
          FROM unnest(ids, traces, outcomes) AS t (id, trace, outcome)
         WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55
           AND (SELECT e.appended_at FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN t.id AND t.id ORDER BY e.id) = now()
           AND (SELECT a.event_id FROM append_trace a WHERE a.workspace_id = w AND a.event_id BETWEEN t.id AND t.id ORDER BY a.event_id LIMIT 1) IS NULL)
    INSERT INTO append_trace (workspace_id, event_id, traceparent)
    SELECT * FROM new
        ON CONFLICT DO NOTHING;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- the append goes on without its trace
END
$$;
-- +goose StatementEnd

-- As in the baseline.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_forget(text, integer) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION log_trace(text, text[], text[], text[]) SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd
DROP FUNCTION log_may_forget(log_forgotten, bigint);

-- +goose Down
CREATE FUNCTION log_may_forget(f log_forgotten, seen bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f.ended_at IS NULL AND f.position <= seen AND NOT EXISTS (
        SELECT FROM log_skip k WHERE k.workspace_id = f.workspace_id AND k.consumer = 'read_models' AND k.position = f.position);
COMMENT ON FUNCTION log_may_forget(log_forgotten, bigint) IS 'Whether a deletion goes on: the read models are at seen, and have had the effect of the entry that forgets.';

-- +goose StatementBegin
-- It deletes the detached values of one slice of positions, of everybody whom an entry of the workspace
-- forgets and whose deletion has not ended. The read models must have that entry: before, their rows
-- follow from these values. It needs no lock on the head: values are never added to positions that
-- exist. Rows are read along primary keys, whatever the statistics say.
CREATE OR REPLACE FUNCTION log_forget(w text, slice integer, OUT more boolean) LANGUAGE plpgsql
SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    subjects  text[];
    positions bigint[];
    below     bigint;
    upto      bigint;
    now       timestamptz := clock_timestamp();
    seen      bigint := (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = w AND c.consumer = 'read_models');
BEGIN
    -- Those who came later wait for the pass that is under way, so that it ends.
    SELECT array_agg(g.subject), array_agg(g.position), min(g.reached), least(min(g.reached) + greatest(slice, 1), max(g.position))
      INTO subjects, positions, below, upto FROM (
           SELECT f.* FROM log_forgotten f WHERE f.workspace_id = w AND log_may_forget(f, seen)
              AND (f.reached > 0 OR NOT EXISTS (SELECT FROM log_forgotten o WHERE o.workspace_id = w AND o.reached > 0 AND log_may_forget(o, seen)))
              FOR UPDATE SKIP LOCKED) AS g;
    IF subjects IS NULL THEN
        more := false;
        RETURN;
    END IF;
    PERFORM set_config('ledgerfeed.removes', w, true); -- the triggers see that only this workspace is concerned
    WITH theirs AS (
        SELECT d.position, f.subject, f.position AS forgotten FROM log_detached d
         CROSS JOIN LATERAL unnest(string_to_array(d.subject, ' ')) AS s (subject)
          JOIN unnest(subjects, positions) AS f (subject, position) ON f.subject = s.subject AND f.position > d.position
         WHERE d.workspace_id = w AND d.position > below AND d.position <= upto),
    gone AS (
        DELETE FROM log_detached d WHERE d.workspace_id = w AND d.position > below AND d.position <= upto
           AND d.position = ANY (ARRAY(SELECT t.position FROM theirs t)))
    UPDATE log_forgotten g
       SET reached = greatest(g.reached, least(upto, g.position)),
           deleted = g.deleted + (SELECT count(*) FROM theirs t WHERE t.subject = g.subject AND t.forgotten = g.position),
           ended_at = CASE WHEN upto >= g.position THEN now END
      FROM unnest(subjects, positions) AS k (subject, position)
     WHERE g.workspace_id = w AND g.subject = k.subject AND g.position = k.position;
    PERFORM set_config('ledgerfeed.removes', '', true);
    more := EXISTS (SELECT FROM log_forgotten g WHERE g.workspace_id = w AND log_may_forget(g, seen));
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
-- It takes the outcomes of log_append, so that it runs after it, and records nothing of what was
-- not appended. An append does not wait for a table that somebody has locked.
CREATE OR REPLACE FUNCTION log_trace(w text, ids text[], traces text[], outcomes text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET enable_sort = off SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(traces, outcomes) AS t (trace, outcome) WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55) THEN
        RETURN;
    END IF;
    LOCK TABLE append_trace IN ROW EXCLUSIVE MODE NOWAIT;
    INSERT INTO append_trace (workspace_id, event_id, traceparent)
    SELECT DISTINCT ON (t.id) w, t.id, t.trace
      FROM unnest(ids, traces, outcomes) AS t (id, trace, outcome)
     WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55
       AND (SELECT e.appended_at FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN t.id AND t.id ORDER BY e.id) = now()
       AND (SELECT a.event_id FROM append_trace a WHERE a.workspace_id = w AND a.event_id BETWEEN t.id AND t.id ORDER BY a.event_id LIMIT 1) IS NULL
        ON CONFLICT DO NOTHING;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- the append goes on without its trace
END
$$;
-- +goose StatementEnd

-- As in the baseline.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_forget(text, integer) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION log_trace(text, text[], text[], text[]) SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd
DROP FUNCTION log_may_forget(text, bigint, timestamptz, bigint);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time() AND i.of_table = i.tableoid) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd
ALTER TABLE webhook_instance ALTER of_table SET DEFAULT 'webhook_instance'::regclass;
DROP FUNCTION log_clock_stable();
