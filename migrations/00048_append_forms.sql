-- What a producer's account may call checks what later stages need: the type is one that a relay
-- can send, the public form is one line of at most 65,535 bytes with four members, and a publish
-- time is at most 5 minutes ahead of the database's clock, whatever the caller's says. A trace is
-- recorded once for each entry of its own transaction.
--
-- To read the schema, open schema.sql: it is made from the migrations.

-- +goose Up
-- New rows alone are checked: the table is not read. log_append looks at the data of the public
-- form, and at that alone: between the two it could end the object and begin a member.
ALTER TABLE event_log
    DROP CONSTRAINT event_log_type,
    DROP CONSTRAINT event_log_public_event,
    ADD CONSTRAINT event_log_type CHECK (octet_length(type) BETWEEN 1 AND 64 AND type !~ '[^a-z_.]|^[_.]|[_.]$|[_.][_.]') NOT VALID,
    ADD CONSTRAINT event_log_public_event CHECK (octet_length(public_event) <= 65535
        AND public_event !~ '[\x01-\x1f\x7f-\x9f]|(^|[^\\])(\\\\)*\\u0000') NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_append(w text, now timestamp with time zone, expected bigint, whole boolean, ids text[], types text[], created timestamp with time zone[], data text[], public text[], wait integer DEFAULT NULL::integer, restore boolean DEFAULT false, OUT head bigint, OUT outcomes text[], OUT positions bigint[], OUT times timestamp with time zone[])
 RETURNS record
 LANGUAGE plpgsql
AS $$
DECLARE
    h      log_head%ROWTYPE;
    made   boolean := false;
    known  boolean;
    old    record;
    stamp  text;
    at     timestamptz;
    clock  timestamptz;
    n      integer := coalesce(array_length(ids, 1), 0);
    last   timestamptz;
    refuse boolean := false;
    a_pos  bigint[] := '{}';
    a_id   text[] := '{}';
    a_type text[] := '{}';
    a_at   timestamptz[] := '{}';
    a_data text[] := '{}';
    a_pub  text[] := '{}';
    a_ch   bytea[] := '{}';
    k      integer := 0;
    began  timestamptz;
    was    text;
    linked bytea;
    shown  text;
    next   bigint;
    single boolean;
    fits   boolean;
    is_new boolean;
BEGIN
    -- Citus after 13.2.0 keeps one more plan at each execution, some 25 kB of a session that it
    -- never gives back, where plans are kept; ledgerfeed.citus_keeps_plans says that one does not.
    IF current_setting('citus.version', true) <> '13.2.0' AND current_setting('ledgerfeed.citus_keeps_plans', true) IS DISTINCT FROM 'on' THEN
        PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
    END IF;
    -- Neither is meant to be NULL, and every condition below takes them for one or the other.
    whole := coalesce(whole, false);
    restore := coalesce(restore, false);
    IF now IS NULL OR now NOT BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes' THEN
        RAISE EXCEPTION 'the caller''s clock says % and the database''s %, which is more than 5 minutes apart', log_stamp(now), log_stamp(log_clock())
            USING ERRCODE = 'LF003',
                  DETAIL = json_build_object('now', log_stamp(now), 'database', log_stamp(log_clock()))::text,
                  HINT = 'Nothing of this call was appended. Set the clocks right.';
    END IF;
    -- Times ahead of now date all later entries of the workspace.
    IF restore AND NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'event_log'::regclass), 'MEMBER')
       AND NOT coalesce(pg_has_role(session_user, to_regrole('ledgerfeed_service'), 'MEMBER'), false) THEN
        RAISE EXCEPTION 'this account may append, but not restore' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF wait IS NULL THEN
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
    ELSE
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND wait = 0 THEN
            IF NOT EXISTS (SELECT FROM log_head l WHERE l.workspace_id = w) THEN
                outcomes := '{}';
            END IF;
            RETURN;
        END IF;
    END IF;
    IF NOT FOUND THEN
        IF wait > 0 THEN
            began := clock_timestamp();
            was := current_setting('lock_timeout');
            IF current_setting('citus.propagate_set_commands', true) IS NULL THEN
                EXECUTE format('SET LOCAL lock_timeout = %L', log_patience(wait)::text || 'ms');
                SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
            ELSE -- a Citus cluster, where the node with the head is told of lock_timeout in some transactions only
                WHILE h.position IS NULL AND EXISTS (SELECT FROM log_head l WHERE l.workspace_id = w) LOOP
                    IF clock_timestamp() > began + log_patience(wait) * interval '1 ms' THEN
                        RAISE EXCEPTION 'the workspace % is locked', w USING ERRCODE = 'lock_not_available';
                    END IF;
                    PERFORM pg_sleep(0.005);
                    SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE SKIP LOCKED;
                END LOOP;
            END IF;
        END IF;
        IF h.position IS NULL THEN
            made := workspace_create(w, w, now);
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF wait > 0 THEN
            EXECUTE format('SET LOCAL lock_timeout = %L', was);
            PERFORM set_config('ledgerfeed.waited', (log_waited() + 1000 * extract(epoch FROM clock_timestamp() - began))::integer::text, true);
        END IF;
    END IF;
    IF wait > 0 AND log_waited() IS NULL THEN
        PERFORM set_config('ledgerfeed.waited', '0', true);
    END IF;
    IF h.closed_until > clock_timestamp() THEN
        IF wait = 0 THEN
            RETURN;
        END IF;
        PERFORM log_closed(w);
    END IF;
    head := h.position;
    IF expected IS NOT NULL AND expected <> h.position THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    -- The caller's clock may be ahead of the database's.
    clock := date_trunc('milliseconds', coalesce(log_clock(), now));
    now := least(date_trunc('milliseconds', now), clock);
    last := h.created_at;
    outcomes := '{}';
    positions := array_fill(NULL::bigint, ARRAY[n]);
    times := '{}';
    -- Few entries are inserted one by one, and each finds out by its INSERT whether the log
    -- holds its id: statements whose plans a Citus cluster can keep, which those for all
    -- entries are not. Many are inserted together after one look-up, and so are those of
    -- which none may be appended when one is refused.
    single := n = 1 OR (n <= 8 AND NOT whole);
    known := true;
    IF NOT single THEN
        -- One look-up by the unique index for each id: as id = ANY (ids) it could
        -- become a walk through the whole workspace.
        known := EXISTS (SELECT FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT FROM event_log e WHERE e.workspace_id = w AND e.id = u.id LIMIT 1) AS held);
    END IF;
    FOR i IN 1..n LOOP
        at := date_trunc('milliseconds', created[i]);
        fits := at IS NULL OR (at >= last AND (restore OR at <= clock + interval '5 minutes'));
        IF fits THEN
            at := coalesce(at, greatest(now, last));
            stamp := log_stamp(at);
            next := h.position + 1;
            linked := log_chain(h.chain, next, ids[i], types[i], stamp, data[i]);
            IF json_typeof(public[i]::json) <> 'object' THEN
                RAISE EXCEPTION 'the public data of the entry % is no object', ids[i] USING ERRCODE = 'check_violation';
            END IF;
            shown := log_public(ids[i], types[i], stamp, public[i]);
        END IF;
        IF fits AND single THEN
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, next, ids[i], types[i], at, data[i]::json, shown, linked)
                ON CONFLICT (workspace_id, id) DO NOTHING;
            is_new := FOUND;
        ELSE
            is_new := false;
        END IF;
        IF known AND NOT is_new THEN
            SELECT e.type, e.data::text AS data, e.position, e.created_at INTO old
              FROM event_log e WHERE e.workspace_id = w AND e.id = ids[i];
            IF FOUND THEN
                positions[i] := old.position;
                times[i] := old.created_at;
                IF old.type = types[i] AND old.data = data[i] THEN
                    outcomes[i] := 'skipped';
                ELSE
                    outcomes[i] := 'other_content';
                    refuse := true;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        IF at < last THEN
            outcomes[i] := 'before_newest';
            times[i] := last;
            refuse := true;
            CONTINUE;
        ELSIF NOT fits THEN
            outcomes[i] := 'ahead';
            times[i] := clock;
            refuse := true;
            CONTINUE;
        END IF;
        last := at;
        h.position := next;
        h.chain := linked;
        outcomes[i] := 'appended';
        positions[i] := next;
        times[i] := at;
        k := k + 1;
        IF NOT single THEN
            a_pos[k] := next;
            a_id[k] := ids[i];
            a_type[k] := types[i];
            a_at[k] := at;
            a_data[k] := data[i];
            a_pub[k] := shown;
            a_ch[k] := linked;
        END IF;
    END LOOP;
    IF k = 0 OR (whole AND refuse) THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    IF NOT single THEN
        INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
        SELECT w, t.position, t.id, t.type, t.at, t.data::json, t.pub, t.chain
          FROM unnest(a_pos, a_id, a_type, a_at, a_data, a_pub, a_ch) AS t (position, id, type, at, data, pub, chain);
    END IF;
    head := h.position;
    linked := h.chain;
    UPDATE log_head SET position = head, created_at = last, chain = linked WHERE workspace_id = w;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) SECURITY DEFINER SET search_path = %I, pg_temp SET plan_cache_mode = auto', current_schema());
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_trace(w text, ids text[], traces text[], outcomes text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(traces, outcomes) AS t (trace, outcome) WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55) THEN
        RETURN;
    END IF;
    LOCK TABLE append_trace IN ROW EXCLUSIVE MODE NOWAIT;
    INSERT INTO append_trace (workspace_id, event_id, traceparent)
    SELECT DISTINCT ON (t.id) w, t.id, t.trace
      FROM unnest(ids, traces, outcomes) AS t (id, trace, outcome)
     WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55
       AND (SELECT e.appended_at FROM event_log e WHERE e.workspace_id = w AND e.id = t.id) = now()
       AND NOT EXISTS (SELECT FROM append_trace a WHERE a.workspace_id = w AND a.event_id = t.id)
        ON CONFLICT DO NOTHING;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- the append goes on without its trace
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_trace(text, text[], text[], text[]) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE event_log
    DROP CONSTRAINT event_log_type,
    DROP CONSTRAINT event_log_public_event,
    ADD CONSTRAINT event_log_type CHECK (octet_length(type) BETWEEN 1 AND 64 AND type !~ '[^a-z_.]') NOT VALID,
    ADD CONSTRAINT event_log_public_event CHECK (octet_length(public_event) <= 131072 AND json_typeof(public_event::json) = 'object') NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_append(w text, now timestamp with time zone, expected bigint, whole boolean, ids text[], types text[], created timestamp with time zone[], data text[], public text[], wait integer DEFAULT NULL::integer, restore boolean DEFAULT false, OUT head bigint, OUT outcomes text[], OUT positions bigint[], OUT times timestamp with time zone[])
 RETURNS record
 LANGUAGE plpgsql
AS $$
DECLARE
    h      log_head%ROWTYPE;
    made   boolean := false;
    known  boolean;
    old    record;
    stamp  text;
    at     timestamptz;
    n      integer := coalesce(array_length(ids, 1), 0);
    last   timestamptz;
    refuse boolean := false;
    a_pos  bigint[] := '{}';
    a_id   text[] := '{}';
    a_type text[] := '{}';
    a_at   timestamptz[] := '{}';
    a_data text[] := '{}';
    a_pub  text[] := '{}';
    a_ch   bytea[] := '{}';
    k      integer := 0;
    began  timestamptz;
    was    text;
    linked bytea;
    shown  text;
    next   bigint;
    single boolean;
    fits   boolean;
    is_new boolean;
BEGIN
    -- Citus after 13.2.0 keeps one more plan at each execution, some 25 kB of a session that it
    -- never gives back, where plans are kept; ledgerfeed.citus_keeps_plans says that one does not.
    IF current_setting('citus.version', true) <> '13.2.0' AND current_setting('ledgerfeed.citus_keeps_plans', true) IS DISTINCT FROM 'on' THEN
        PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
    END IF;
    -- Neither is meant to be NULL, and every condition below takes them for one or the other.
    whole := coalesce(whole, false);
    restore := coalesce(restore, false);
    IF now IS NULL OR now NOT BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes' THEN
        RAISE EXCEPTION 'the caller''s clock says % and the database''s %, which is more than 5 minutes apart', log_stamp(now), log_stamp(log_clock())
            USING ERRCODE = 'LF003',
                  DETAIL = json_build_object('now', log_stamp(now), 'database', log_stamp(log_clock()))::text,
                  HINT = 'Nothing of this call was appended. Set the clocks right.';
    END IF;
    -- Times ahead of now date all later entries of the workspace.
    IF restore AND NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'event_log'::regclass), 'MEMBER')
       AND NOT coalesce(pg_has_role(session_user, to_regrole('ledgerfeed_service'), 'MEMBER'), false) THEN
        RAISE EXCEPTION 'this account may append, but not restore' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF wait IS NULL THEN
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
    ELSE
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND wait = 0 THEN
            IF NOT EXISTS (SELECT FROM log_head l WHERE l.workspace_id = w) THEN
                outcomes := '{}';
            END IF;
            RETURN;
        END IF;
    END IF;
    IF NOT FOUND THEN
        IF wait > 0 THEN
            began := clock_timestamp();
            was := current_setting('lock_timeout');
            IF current_setting('citus.propagate_set_commands', true) IS NULL THEN
                EXECUTE format('SET LOCAL lock_timeout = %L', log_patience(wait)::text || 'ms');
                SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
            ELSE -- a Citus cluster, where the node with the head is told of lock_timeout in some transactions only
                WHILE h.position IS NULL AND EXISTS (SELECT FROM log_head l WHERE l.workspace_id = w) LOOP
                    IF clock_timestamp() > began + log_patience(wait) * interval '1 ms' THEN
                        RAISE EXCEPTION 'the workspace % is locked', w USING ERRCODE = 'lock_not_available';
                    END IF;
                    PERFORM pg_sleep(0.005);
                    SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE SKIP LOCKED;
                END LOOP;
            END IF;
        END IF;
        IF h.position IS NULL THEN
            made := workspace_create(w, w, now);
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF wait > 0 THEN
            EXECUTE format('SET LOCAL lock_timeout = %L', was);
            PERFORM set_config('ledgerfeed.waited', (log_waited() + 1000 * extract(epoch FROM clock_timestamp() - began))::integer::text, true);
        END IF;
    END IF;
    IF wait > 0 AND log_waited() IS NULL THEN
        PERFORM set_config('ledgerfeed.waited', '0', true);
    END IF;
    IF h.closed_until > clock_timestamp() THEN
        IF wait = 0 THEN
            RETURN;
        END IF;
        PERFORM log_closed(w);
    END IF;
    head := h.position;
    IF expected IS NOT NULL AND expected <> h.position THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    now := date_trunc('milliseconds', now);
    last := h.created_at;
    outcomes := '{}';
    positions := array_fill(NULL::bigint, ARRAY[n]);
    times := '{}';
    -- Few entries are inserted one by one, and each finds out by its INSERT whether the log
    -- holds its id: statements whose plans a Citus cluster can keep, which those for all
    -- entries are not. Many are inserted together after one look-up, and so are those of
    -- which none may be appended when one is refused.
    single := n = 1 OR (n <= 8 AND NOT whole);
    known := true;
    IF NOT single THEN
        -- One look-up by the unique index for each id: as id = ANY (ids) it could
        -- become a walk through the whole workspace.
        known := EXISTS (SELECT FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT FROM event_log e WHERE e.workspace_id = w AND e.id = u.id LIMIT 1) AS held);
    END IF;
    FOR i IN 1..n LOOP
        at := date_trunc('milliseconds', created[i]);
        fits := at IS NULL OR (at >= last AND (restore OR at <= now + interval '5 minutes'));
        IF fits THEN
            at := coalesce(at, greatest(now, last));
            stamp := log_stamp(at);
            next := h.position + 1;
            linked := log_chain(h.chain, next, ids[i], types[i], stamp, data[i]);
            shown := log_public(ids[i], types[i], stamp, public[i]);
        END IF;
        IF fits AND single THEN
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, next, ids[i], types[i], at, data[i]::json, shown, linked)
                ON CONFLICT (workspace_id, id) DO NOTHING;
            is_new := FOUND;
        ELSE
            is_new := false;
        END IF;
        IF known AND NOT is_new THEN
            SELECT e.type, e.data::text AS data, e.position, e.created_at INTO old
              FROM event_log e WHERE e.workspace_id = w AND e.id = ids[i];
            IF FOUND THEN
                positions[i] := old.position;
                times[i] := old.created_at;
                IF old.type = types[i] AND old.data = data[i] THEN
                    outcomes[i] := 'skipped';
                ELSE
                    outcomes[i] := 'other_content';
                    refuse := true;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        IF at < last THEN
            outcomes[i] := 'before_newest';
            times[i] := last;
            refuse := true;
            CONTINUE;
        ELSIF NOT fits THEN
            outcomes[i] := 'ahead';
            times[i] := now;
            refuse := true;
            CONTINUE;
        END IF;
        last := at;
        h.position := next;
        h.chain := linked;
        outcomes[i] := 'appended';
        positions[i] := next;
        times[i] := at;
        k := k + 1;
        IF NOT single THEN
            a_pos[k] := next;
            a_id[k] := ids[i];
            a_type[k] := types[i];
            a_at[k] := at;
            a_data[k] := data[i];
            a_pub[k] := shown;
            a_ch[k] := linked;
        END IF;
    END LOOP;
    IF k = 0 OR (whole AND refuse) THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    IF NOT single THEN
        INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
        SELECT w, t.position, t.id, t.type, t.at, t.data::json, t.pub, t.chain
          FROM unnest(a_pos, a_id, a_type, a_at, a_data, a_pub, a_ch) AS t (position, id, type, at, data, pub, chain);
    END IF;
    head := h.position;
    linked := h.chain;
    UPDATE log_head SET position = head, created_at = last, chain = linked WHERE workspace_id = w;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) SECURITY DEFINER SET search_path = %I, pg_temp SET plan_cache_mode = auto', current_schema());
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_trace(w text, ids text[], traces text[], outcomes text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(traces, outcomes) AS t (trace, outcome) WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55) THEN
        RETURN;
    END IF;
    LOCK TABLE append_trace IN ROW EXCLUSIVE MODE NOWAIT;
    INSERT INTO append_trace (workspace_id, event_id, traceparent)
    SELECT w, t.id, t.trace
      FROM unnest(ids, traces, outcomes) AS t (id, trace, outcome)
     WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55
        ON CONFLICT DO NOTHING;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- the append goes on without its trace
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_trace(text, text[], text[], text[]) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd
