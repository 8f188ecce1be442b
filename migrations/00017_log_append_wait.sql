-- An append does not wait without limit for a workspace that another transaction
-- holds, a caller whose clock is wrong is refused, and exported history can be
-- restored as it is.

-- +goose Up
CREATE FUNCTION log_clock() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN clock_timestamp();
COMMENT ON FUNCTION log_clock() IS 'The time that callers'' clocks are compared with; null: they are not.';

CREATE FUNCTION log_waited() RETURNS integer LANGUAGE sql STABLE RETURN nullif(current_setting('ledgerfeed.waited', true), '')::integer;
COMMENT ON FUNCTION log_waited() IS 'How long this transaction has waited for heads while it held another, in ms; null: it holds none.';

-- A lower limit of the session stays.
CREATE FUNCTION log_patience(wait integer) RETURNS integer LANGUAGE sql STABLE RETURN greatest(1, least(
    wait, 200 - log_waited(), nullif(extract(epoch FROM current_setting('lock_timeout')::interval) * 1000, 0)))::integer;
COMMENT ON FUNCTION log_patience(integer) IS 'How long this transaction waits for one more head, in ms: 200 in all once it holds another.';

-- Every append, from whichever program, is this one statement: the chain and
-- the positions are made where the lock is, in one round trip.
--
-- Arrays hold one element per entry, in order. created gives the publish time
-- of imported history, null for now. public is the data object of the public
-- form, null for internal types. The caller has checked forms (domain) and
-- that no id occurs twice among the entries. A now more than 5 minutes from
-- the database's clock is an exception of SQLSTATE LF003: later entries could
-- not have an earlier time.
--
-- outcomes: appended, skipped (the workspace holds the same entry already),
-- other_content (it holds the id with other type or data), before_newest,
-- ahead (more than 5 minutes after now; taken with restore). With whole,
-- nothing is appended unless every entry can be; without, each entry stands
-- for itself. When expected is given and is not the newest position, nothing
-- is appended and outcomes is null.
--
-- wait says how long, in ms, the call waits for the workspace while another
-- transaction holds its head. Null: as long as the session lets it. 0: not at
-- all; nothing is appended and outcomes is null where the head is held, and
-- empty where the workspace does not exist yet, because creating it may mean to
-- wait for another transaction that does. Otherwise the call fails with SQLSTATE
-- 55P03 when the time is over. A transaction that holds a head already waits for
-- others for 200 ms in all, whatever wait says, so that a workspace that is held
-- does not hold up the rest.
DROP FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[]);
-- +goose StatementBegin
CREATE FUNCTION log_append(
    w text, now timestamptz, expected bigint, whole boolean,
    ids text[], types text[], created timestamptz[], data text[], public text[],
    wait integer DEFAULT NULL, restore boolean DEFAULT false,
    OUT head bigint, OUT outcomes text[], OUT positions bigint[], OUT times timestamptz[]
) LANGUAGE plpgsql AS $$
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
BEGIN
    IF now NOT BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes' THEN
        RAISE EXCEPTION 'the caller''s clock says % and the database''s %, which is more than 5 minutes apart', log_stamp(now), log_stamp(log_clock())
            USING ERRCODE = 'LF003',
                  DETAIL = json_build_object('now', log_stamp(now), 'database', log_stamp(log_clock()))::text,
                  HINT = 'Nothing of this call was appended. Set the clocks right.';
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
            PERFORM set_config('lock_timeout', log_patience(wait) || 'ms', true);
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF h.position IS NULL THEN
            made := workspace_create(w, w, now);
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF wait > 0 THEN
            PERFORM set_config('lock_timeout', was, true);
            PERFORM set_config('ledgerfeed.waited', (log_waited() + 1000 * extract(epoch FROM clock_timestamp() - began))::integer::text, true);
        END IF;
    END IF;
    IF wait > 0 AND log_waited() IS NULL THEN
        PERFORM set_config('ledgerfeed.waited', '0', true);
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
        PERFORM FROM event_log e WHERE e.workspace_id = w AND e.id = ids[1];
        IF NOT FOUND AND (at IS NULL OR (at >= last AND (restore OR at <= now + interval '5 minutes'))) THEN
            last := coalesce(at, greatest(now, last));
            stamp := log_stamp(last);
            head := h.position + 1;
            h.chain := log_chain(h.chain, head, ids[1], types[1], stamp, data[1]);
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, head, ids[1], types[1], last, data[1]::json, log_public(ids[1], types[1], stamp, public[1]), h.chain);
            UPDATE log_head SET position = head, created_at = last, chain = h.chain WHERE workspace_id = w;
            outcomes := ARRAY['appended'];
            positions := ARRAY[head];
            times := ARRAY[last];
            RETURN;
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
COMMENT ON FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) IS 'The one way into the log.';

-- It waits for the workspace for 10 seconds, as other appends do.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_publish(w text, now timestamptz, entries json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ids     text[];
    types   text[];
    created timestamptz[];
    data    text[];
    public  text[];
    indexes integer[];
    done    record;
    reason  text;
    against text;
BEGIN
    SELECT array_agg(t.e->>'id' ORDER BY t.n), array_agg(t.e->>'type' ORDER BY t.n),
           array_agg((t.e->>'created_at')::timestamptz ORDER BY t.n), array_agg(t.e->>'data' ORDER BY t.n),
           array_agg(t.e->>'public' ORDER BY t.n), array_agg((t.e->>'index')::integer ORDER BY t.n)
      INTO ids, types, created, data, public, indexes
      FROM json_array_elements(entries) WITH ORDINALITY AS t (e, n);
    IF ids IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO done FROM log_append(w, now, NULL, true, ids, types, created, data, public, 10000);
    FOR i IN 1..array_length(ids, 1) LOOP
        IF done.outcomes[i] IN ('appended', 'skipped') THEN
            CONTINUE;
        END IF;
        against := to_char(done.times[i] AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
        reason := CASE done.outcomes[i]
            WHEN 'other_content' THEN 'the workspace holds this id with other content'
            WHEN 'before_newest' THEN 'created_at is before the workspace''s newest entry, of ' || against
            WHEN 'ahead' THEN 'created_at is more than 5 minutes ahead of now, ' || against
            ELSE done.outcomes[i]
        END;
        RAISE EXCEPTION 'entry % refused: %', ids[i], reason
            USING ERRCODE = 'LF001',
                  DETAIL = json_build_object('index', indexes[i], 'id', ids[i],
                                             'outcome', done.outcomes[i], 'against', against)::text,
                  HINT = 'Nothing of this call was appended.';
    END LOOP;
    PERFORM pg_notify('ledgerfeed_appended', '- ' || w);
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean);
DROP FUNCTION log_patience(integer);
DROP FUNCTION log_waited();
DROP FUNCTION log_clock();
-- +goose StatementBegin
CREATE FUNCTION log_append(
    w text, now timestamptz, expected bigint, whole boolean,
    ids text[], types text[], created timestamptz[], data text[], public text[],
    OUT head bigint, OUT outcomes text[], OUT positions bigint[], OUT times timestamptz[]
) LANGUAGE plpgsql AS $$
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
BEGIN
    SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
    IF NOT FOUND THEN
        made := workspace_create(w, w, now);
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
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
        PERFORM FROM event_log e WHERE e.workspace_id = w AND e.id = ids[1];
        IF NOT FOUND AND (at IS NULL OR (at >= last AND at <= now + interval '5 minutes')) THEN
            last := coalesce(at, greatest(now, last));
            stamp := log_stamp(last);
            head := h.position + 1;
            h.chain := log_chain(h.chain, head, ids[1], types[1], stamp, data[1]);
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, head, ids[1], types[1], last, data[1]::json, log_public(ids[1], types[1], stamp, public[1]), h.chain);
            UPDATE log_head SET position = head, created_at = last, chain = h.chain WHERE workspace_id = w;
            outcomes := ARRAY['appended'];
            positions := ARRAY[head];
            times := ARRAY[last];
            RETURN;
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
        ELSIF at > now + interval '5 minutes' THEN
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
COMMENT ON FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[]) IS 'The one way into the log.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_publish(w text, now timestamptz, entries json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ids     text[];
    types   text[];
    created timestamptz[];
    data    text[];
    public  text[];
    indexes integer[];
    done    record;
    reason  text;
    against text;
BEGIN
    SELECT array_agg(t.e->>'id' ORDER BY t.n), array_agg(t.e->>'type' ORDER BY t.n),
           array_agg((t.e->>'created_at')::timestamptz ORDER BY t.n), array_agg(t.e->>'data' ORDER BY t.n),
           array_agg(t.e->>'public' ORDER BY t.n), array_agg((t.e->>'index')::integer ORDER BY t.n)
      INTO ids, types, created, data, public, indexes
      FROM json_array_elements(entries) WITH ORDINALITY AS t (e, n);
    IF ids IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO done FROM log_append(w, now, NULL, true, ids, types, created, data, public);
    FOR i IN 1..array_length(ids, 1) LOOP
        IF done.outcomes[i] IN ('appended', 'skipped') THEN
            CONTINUE;
        END IF;
        against := to_char(done.times[i] AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
        reason := CASE done.outcomes[i]
            WHEN 'other_content' THEN 'the workspace holds this id with other content'
            WHEN 'before_newest' THEN 'created_at is before the workspace''s newest entry, of ' || against
            WHEN 'ahead' THEN 'created_at is more than 5 minutes ahead of now, ' || against
            ELSE done.outcomes[i]
        END;
        RAISE EXCEPTION 'entry % refused: %', ids[i], reason
            USING ERRCODE = 'LF001',
                  DETAIL = json_build_object('index', indexes[i], 'id', ids[i],
                                             'outcome', done.outcomes[i], 'against', against)::text,
                  HINT = 'Nothing of this call was appended.';
    END LOOP;
    PERFORM pg_notify('ledgerfeed_appended', '- ' || w);
END
$$;
-- +goose StatementEnd
