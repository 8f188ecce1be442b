-- Appends of a few entries to a workspace, which is what independent callers make together, insert
-- them one by one. On a Citus cluster that keeps plans rightly, this and an append of one entry are
-- planned once: 1.6 to 2 times the appends a second there. On one PostgreSQL it is no slower.
--
-- To read the schema, open schema.sql: it is made from the migrations.

-- +goose Up

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

-- +goose Down
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
BEGIN
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
    -- One new entry that nothing is wrong with is by far the most frequent
    -- append: without the arrays it costs a fifth less.
    IF n = 1 THEN
        at := date_trunc('milliseconds', created[1]);
        IF at IS NULL OR (at >= last AND (restore OR at <= now + interval '5 minutes')) THEN
            at := coalesce(at, greatest(now, last));
            stamp := log_stamp(at);
            head := h.position + 1;
            linked := log_chain(h.chain, head, ids[1], types[1], stamp, data[1]);
            shown := log_public(ids[1], types[1], stamp, public[1]);
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, head, ids[1], types[1], at, data[1]::json, shown, linked)
                ON CONFLICT (workspace_id, id) DO NOTHING;
            IF FOUND THEN
                UPDATE log_head SET position = head, created_at = at, chain = linked WHERE workspace_id = w;
                outcomes := ARRAY['appended'];
                positions := ARRAY[head];
                times := ARRAY[at];
                RETURN;
            END IF;
            head := h.position;
        END IF;
    END IF;
    outcomes := '{}';
    positions := array_fill(NULL::bigint, ARRAY[n]);
    times := '{}';
    -- One look-up by the unique index for each id: as id = ANY (ids) it could
    -- become a walk through the whole workspace.
    known := EXISTS (SELECT FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
        SELECT FROM event_log e WHERE e.workspace_id = w AND e.id = u.id LIMIT 1) AS held);
    FOR i IN 1..n LOOP
        IF known THEN
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
        at := date_trunc('milliseconds', created[i]);
        IF at < last THEN
            outcomes[i] := 'before_newest';
            times[i] := last;
            refuse := true;
            CONTINUE;
        ELSIF at > now + interval '5 minutes' AND NOT restore THEN
            outcomes[i] := 'ahead';
            times[i] := now;
            refuse := true;
            CONTINUE;
        END IF;
        last := coalesce(at, greatest(now, last));
        stamp := log_stamp(last);
        h.position := h.position + 1;
        h.chain := log_chain(h.chain, h.position, ids[i], types[i], stamp, data[i]);
        outcomes[i] := 'appended';
        positions[i] := h.position;
        times[i] := last;
        k := k + 1;
        a_pos[k] := h.position;
        a_id[k] := ids[i];
        a_type[k] := types[i];
        a_at[k] := last;
        a_data[k] := data[i];
        a_pub[k] := log_public(ids[i], types[i], stamp, public[i]);
        a_ch[k] := h.chain;
    END LOOP;
    IF k = 0 OR (whole AND refuse) THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
    SELECT w, t.position, t.id, t.type, t.at, t.data::json, t.pub, t.chain
      FROM unnest(a_pos, a_id, a_type, a_at, a_data, a_pub, a_ch) AS t (position, id, type, at, data, pub, chain);
    UPDATE log_head SET position = h.position, created_at = last, chain = h.chain WHERE workspace_id = w;
    head := h.position;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd
