-- The fields of entries that are about people are detached: they are kept next to the log, which
-- holds only a commitment to them (docs/contract/log.md, "Detached fields"). So they can be forgotten,
-- and the log stays as it is.

-- +goose Up

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM event_log) THEN
        RAISE EXCEPTION 'the log of this database holds the names of people: it cannot be upgraded'
            USING HINT = 'Export it with the earlier program, and append it with --restore to an empty database.';
    END IF;
END
$$;
-- +goose StatementEnd

CREATE TABLE log_detached (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    subject text COLLATE "C" NOT NULL,
    salt bytea NOT NULL,
    value text NOT NULL,
    CONSTRAINT log_detached_pkey PRIMARY KEY (workspace_id, position),
    CONSTRAINT log_detached_salt_check CHECK (octet_length(salt) = 32),
    CONSTRAINT log_detached_value_check CHECK ((octet_length(value) <= 131072) AND (json_typeof(value::json) = 'object'))
);
COMMENT ON TABLE log_detached IS 'The detached fields of entries, which can be forgotten. Rows are never changed.';
COMMENT ON COLUMN log_detached.position IS 'Of the entry.';
COMMENT ON COLUMN log_detached.subject IS 'Whom the fields are about: client:ID, contractor:ID, or both with a space between them.';
COMMENT ON COLUMN log_detached.salt IS '32 random bytes, without which the commitment cannot be compared with a guess.';
COMMENT ON COLUMN log_detached.value IS 'The detached fields that the entry gives, as a JSON object in canonical form; text, because the commitment covers the exact bytes.';

-- +goose StatementBegin
CREATE FUNCTION log_detached_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('ledgerfeed.removes', true) <> '' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% on log_detached is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Detached values are never changed. ledgerfeed person forget deletes those of a person.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_detached_refuse() IS 'Keeps detached values as they were appended.';
CREATE TRIGGER log_detached_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON log_detached FOR EACH STATEMENT EXECUTE FUNCTION log_detached_refuse();
CREATE TRIGGER log_detached_removes_one AFTER DELETE ON log_detached REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION event_log_removed();

-- Statistics would keep samples of names and texts after they are forgotten.
ALTER TABLE log_detached ALTER COLUMN salt SET STATISTICS 0, ALTER COLUMN value SET STATISTICS 0;
ALTER TABLE client ALTER COLUMN base SET STATISTICS 0;
ALTER TABLE contractor ALTER COLUMN base SET STATISTICS 0;
ALTER TABLE invoice ALTER COLUMN base SET STATISTICS 0, ALTER COLUMN margin SET STATISTICS 0;
ALTER TABLE charge ALTER COLUMN base SET STATISTICS 0;
ALTER TABLE time_entry ALTER COLUMN base SET STATISTICS 0;
ALTER TABLE payment ALTER COLUMN base SET STATISTICS 0;
ALTER TABLE credit_move ALTER COLUMN base SET STATISTICS 0;

-- A commitment is the last member of a stored form: ,"~":" and 43 characters and "}.
CREATE FUNCTION log_commits(stored text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN right(stored, 51) LIKE ',"~":"%"}';
COMMENT ON FUNCTION log_commits(text) IS 'Whether a stored form has a commitment to detached fields.';

CREATE FUNCTION log_stored(open text, salt bytea, w text, id text, value text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN left(open, -1) || ',"~":"' || translate(rtrim(encode(sha256(
        convert_to(E'ledgerfeed/detached/1\n', 'UTF8') || salt || convert_to(w || E'\n' || id || E'\n' || value, 'UTF8')), 'base64'), '='), '+/', '-_') || '"}';
COMMENT ON FUNCTION log_stored(text, bytea, text, text, text) IS 'The stored form of an entry, from its data without the detached fields and from these.';

-- Of a forgotten value, nothing is known that could be compared.
CREATE FUNCTION log_same(stored text, salt bytea, w text, id text, open text, value text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN value IS NULL AND stored = open THEN true
        WHEN NOT log_commits(stored) THEN false
        WHEN salt IS NULL THEN left(stored, -51) || '}' = open
        ELSE value IS NOT NULL AND stored = log_stored(open, salt, w, id, value)
    END;
COMMENT ON FUNCTION log_same(text, bytea, text, text, text, text) IS 'Whether a stored entry, with the salt of its detached value, has the same data as an entry that is offered.';

CREATE FUNCTION log_subject(type text, data json) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN concat_ws(' ',
        CASE WHEN type <> 'contractor.recorded' THEN 'client:' || (data->>'client_id') END,
        CASE WHEN type IN ('contractor.recorded', 'time_entry.recorded') THEN 'contractor:' || (data->>'contractor_id') END);
COMMENT ON FUNCTION log_subject(text, json) IS 'Whom the detached fields of an entry are about.';

CREATE FUNCTION log_forgets(type text, data json) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE type WHEN 'client.forgotten' THEN 'client:' || (data->>'client_id') WHEN 'contractor.forgotten' THEN 'contractor:' || (data->>'contractor_id') END;
COMMENT ON FUNCTION log_forgets(text, json) IS 'Whom an entry forgets; null: it forgets nobody.';

CREATE TABLE log_forgotten (
    workspace_id text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    reached bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    CONSTRAINT log_forgotten_pkey PRIMARY KEY (workspace_id, subject, position)
);
COMMENT ON TABLE log_forgotten IS 'Who was forgotten, and how far the deletion of detached values has come. log_append writes it with the entry.';
COMMENT ON COLUMN log_forgotten.subject IS 'client:ID or contractor:ID.';
COMMENT ON COLUMN log_forgotten.position IS 'Of the entry that forgets. Values of entries before it are deleted.';
COMMENT ON COLUMN log_forgotten.reached IS 'Position up to which the values are deleted.';
COMMENT ON COLUMN log_forgotten.deleted IS 'How many values were deleted.';
COMMENT ON COLUMN log_forgotten.ended_at IS 'When no value was left; null: the deletion goes on.';
CREATE INDEX log_forgotten_pending ON log_forgotten (workspace_id, position) WHERE (ended_at IS NULL);

CREATE FUNCTION log_may_forget(f log_forgotten, seen bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f.ended_at IS NULL AND f.position <= seen AND NOT EXISTS (
        SELECT FROM log_skip k WHERE k.workspace_id = f.workspace_id AND k.consumer = 'read_models' AND k.position = f.position);
COMMENT ON FUNCTION log_may_forget(log_forgotten, bigint) IS 'Whether a deletion goes on: the read models are at seen, and have had the effect of the entry that forgets.';

-- +goose StatementBegin
-- It deletes the detached values of one slice of positions, of everybody whom an entry of the workspace
-- forgets and whose deletion has not ended. The read models must have that entry: before, their rows
-- follow from these values. It needs no lock on the head: values are never added to positions that
-- exist. Rows are read along primary keys, whatever the statistics say.
CREATE FUNCTION log_forget(w text, slice integer, OUT more boolean) LANGUAGE plpgsql
SET enable_seqscan = off AS $$
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
COMMENT ON FUNCTION log_forget(text, integer) IS 'Deletes a slice of the detached values of those who are forgotten, the only way to delete them.';

DROP FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean);

-- +goose StatementBegin
-- Every append, from whichever program, is this one statement: the chain and the positions are
-- made where the lock is, in one round trip.
--
-- Arrays hold one element per entry, in order. created gives the publish time of imported history,
-- null for now. data is the data without the detached fields, public the data object of the public
-- form, null for internal types. detached is the object of the detached fields and salts its salt, 32
-- random bytes; both are null for an entry without one. With restore, data may be a stored form whose
-- detached value is not there. The caller has checked forms (domain) and that no id occurs twice
-- among the entries. A now more than 5 minutes from the database's clock is an exception of SQLSTATE
-- LF003: later entries could not have an earlier time.
--
-- outcomes: appended, skipped (the workspace holds the same entry already), other_content (it holds
-- the id with other type or data), before_newest, ahead (more than 5 minutes after now; taken with
-- restore). With whole, nothing is appended unless every entry can be; without, each entry stands
-- for itself. When expected is given and is not the newest position, nothing is appended and
-- outcomes is null.
--
-- wait says how long, in ms, the call waits for the workspace while another transaction holds its
-- head. Null: as long as the session lets it. 0: not at all; nothing is appended and outcomes is null
-- where the head is held, and empty where the workspace does not exist yet, because creating it may
-- mean to wait for another transaction that does. Otherwise the call fails with SQLSTATE 55P03 when
-- the time is over. A transaction that holds a head already waits for others for 200 ms in all,
-- whatever wait says, so that a workspace that is held does not hold up the rest.
--
-- While statistics do not know a workspace, PostgreSQL expects one row there, and takes the lowest
-- index that begins with the workspace also for "workspace_id = w AND id = x". A range of one value in
-- the order of its column can be read without a sort along the right index alone.
CREATE FUNCTION log_append(
    w text, now timestamptz, expected bigint, whole boolean, ids text[], types text[], created timestamptz[], data text[],
    public text[], detached text[], salts bytea[], wait integer DEFAULT NULL, restore boolean DEFAULT false, OUT head bigint, OUT outcomes text[],
    OUT positions bigint[], OUT times timestamptz[]
) LANGUAGE plpgsql SET plan_cache_mode = auto SET enable_sort = off AS $$
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
    d_pos  bigint[] := '{}';
    d_of   text[] := '{}';
    d_salt bytea[] := '{}';
    d_val  text[] := '{}';
    m      integer := 0;
    k      integer := 0;
    began  timestamptz;
    was    text;
    linked bytea;
    shown  text;
    kept   text;
    next   bigint;
    single boolean;
    fits   boolean;
    is_new boolean;
BEGIN
    -- Neither is meant to be NULL, and every condition below takes them for one or the other.
    whole := coalesce(whole, false);
    restore := coalesce(restore, false);
    IF now IS NULL OR now NOT BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes' THEN
        RAISE EXCEPTION 'the caller''s clock says % and the database''s %, which is more than 5 minutes apart', log_stamp(now), log_stamp(log_clock())
            USING ERRCODE = 'LF003',
                  DETAIL = json_build_object('now', log_stamp(now), 'database', log_stamp(log_clock()))::text,
                  HINT = 'Nothing of this call was appended. Set the clocks right.';
    END IF;
    -- Times ahead of now date all later entries of the workspace. Two conditions, because the second
    -- one costs as much as a tenth of an append.
    IF restore THEN
        IF NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'event_log'::regclass), 'MEMBER')
           AND NOT coalesce(pg_has_role(session_user, to_regrole('ledgerfeed_service'), 'MEMBER'), false) THEN
            RAISE EXCEPTION 'this account may append, but not restore' USING ERRCODE = 'insufficient_privilege';
        END IF;
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
            EXECUTE format('SET LOCAL lock_timeout = %L', log_patience(wait)::text || 'ms');
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
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
    -- holds its id. Many are inserted together after one look-up, and so are those of which
    -- none may be appended when one is refused.
    single := n = 1 OR (n <= 8 AND NOT whole);
    known := true;
    IF NOT single THEN
        -- One look-up for each id, in the order of ids: this function is planned without
        -- sorts, so that only the unique index can be read, whatever the statistics say.
        known := EXISTS (SELECT FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN u.id AND u.id ORDER BY e.id LIMIT 1) AS held);
    END IF;
    FOR i IN 1..n LOOP
        at := date_trunc('milliseconds', created[i]);
        fits := at IS NULL OR (at >= last AND (restore OR at <= clock + interval '5 minutes'));
        IF fits THEN
            at := coalesce(at, greatest(now, last));
            stamp := log_stamp(at);
            next := h.position + 1;
            kept := data[i];
            IF detached[i] IS NOT NULL THEN
                IF octet_length(salts[i]) IS DISTINCT FROM 32 THEN
                    RAISE EXCEPTION 'the salt of the entry % is not 32 bytes', ids[i] USING ERRCODE = 'check_violation';
                END IF;
                kept := log_stored(kept, salts[i], w, ids[i], detached[i]);
            END IF;
            IF log_commits(data[i]) AND (detached[i] IS NOT NULL OR NOT restore) THEN
                RAISE EXCEPTION 'the data of the entry % is a stored form', ids[i] USING ERRCODE = 'check_violation';
            END IF;
            linked := log_chain(h.chain, next, ids[i], types[i], stamp, kept);
            IF json_typeof(public[i]::json) <> 'object' THEN
                RAISE EXCEPTION 'the public data of the entry % is no object', ids[i] USING ERRCODE = 'check_violation';
            END IF;
            shown := log_public(ids[i], types[i], stamp, public[i]);
        END IF;
        IF fits AND single THEN
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, next, ids[i], types[i], at, kept::json, shown, linked)
                ON CONFLICT (workspace_id, id) DO NOTHING;
            is_new := FOUND;
            IF is_new AND detached[i] IS NOT NULL THEN
                INSERT INTO log_detached (workspace_id, position, subject, salt, value)
                VALUES (w, next, log_subject(types[i], data[i]::json), salts[i], detached[i]);
            END IF;
        ELSE
            is_new := false;
        END IF;
        IF known AND NOT is_new THEN
            SELECT e.type, e.data::text AS data, e.position, e.created_at,
                   (SELECT d.salt FROM log_detached d WHERE d.workspace_id = e.workspace_id AND d.position BETWEEN e.position AND e.position ORDER BY d.position LIMIT 1) AS salt
              INTO old FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN ids[i] AND ids[i] ORDER BY e.id;
            IF FOUND THEN
                positions[i] := old.position;
                times[i] := old.created_at;
                IF old.type = types[i] AND log_same(old.data, old.salt, w, ids[i], data[i], detached[i]) THEN
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
            a_data[k] := kept;
            a_pub[k] := shown;
            a_ch[k] := linked;
            IF detached[i] IS NOT NULL THEN
                m := m + 1;
                d_pos[m] := next;
                d_of[m] := log_subject(types[i], data[i]::json);
                d_salt[m] := salts[i];
                d_val[m] := detached[i];
            END IF;
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
        IF m > 0 THEN
            INSERT INTO log_detached (workspace_id, position, subject, salt, value)
            SELECT w, t.position, t.subject, t.salt, t.value FROM unnest(d_pos, d_of, d_salt, d_val) AS t (position, subject, salt, value);
        END IF;
    END IF;
    IF types && ARRAY['client.forgotten', 'contractor.forgotten'] THEN
        INSERT INTO log_forgotten (workspace_id, subject, position)
        SELECT w, log_forgets(u.type, u.data::json), u.position FROM unnest(types, data, positions, outcomes) AS u (type, data, position, outcome)
         WHERE u.outcome = 'appended' AND log_forgets(u.type, u.data::json) IS NOT NULL;
    END IF;
    head := h.position;
    linked := h.chain;
    UPDATE log_head SET position = head, created_at = last, chain = linked WHERE workspace_id = w;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_append(text,timestamptz,bigint,boolean,text[],text[],timestamptz[],text[],text[],text[],bytea[],integer,boolean) IS 'The one way into the log.';

-- +goose StatementBegin
-- What the Watermill publisher runs inside a producer's transaction. Entries are a JSON array of
-- objects: index (of the message), id, type, created_at (absent: now), open (a string: the canonical
-- form without the detached fields, which the caller has checked), public (a string, absent for
-- internal types), and for an entry with detached fields value (a string) and salt (hex). It waits for
-- the workspace for 10 seconds. A refusal is an exception, because only that keeps a producer from
-- committing its own rows without the entries they belong to. Whoever reads the log is notified when
-- the transaction commits.
CREATE OR REPLACE FUNCTION log_publish(w text, now timestamptz, entries json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ids     text[];
    types   text[];
    created timestamptz[];
    data    text[];
    public  text[];
    apart   text[];
    salts   bytea[];
    indexes integer[];
    done    record;
    reason  text;
    against text;
BEGIN
    SELECT array_agg(t.e->>'id' ORDER BY t.n), array_agg(t.e->>'type' ORDER BY t.n),
           array_agg((t.e->>'created_at')::timestamptz ORDER BY t.n), array_agg(t.e->>'open' ORDER BY t.n),
           array_agg(t.e->>'public' ORDER BY t.n), array_agg(t.e->>'value' ORDER BY t.n),
           array_agg(decode(t.e->>'salt', 'hex') ORDER BY t.n), array_agg((t.e->>'index')::integer ORDER BY t.n)
      INTO ids, types, created, data, public, apart, salts, indexes
      FROM json_array_elements(entries) WITH ORDINALITY AS t (e, n);
    IF ids IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO done FROM log_append(w, now, NULL, true, ids, types, created, data, public, apart, salts, 10000);
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

-- As in the baseline: they run with the rights of the owner of the tables.
-- +goose StatementBegin
DO $$
DECLARE
    f text;
BEGIN
    FOREACH f IN ARRAY ARRAY[
        'log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], text[], bytea[], integer, boolean)',
        'log_publish(text, timestamptz, json)',
        'log_forget(text, integer)'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', f, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Columns by which statements filter by day and add up amounts, and lists of credit
-- (docs/contract/decisions.md, "Responses"). Days are YYYY-MM-DD. An amount is in hundredths and hours are in ten-thousandths, so that sums are
-- exact and fast. The indexes of months hold what totals of a month need, so that these read hardly a row.
ALTER TABLE invoice
    ADD COLUMN number text COLLATE "C",
    ADD COLUMN reversed boolean,
    ADD COLUMN open boolean,
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN last_day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN gross_amount bigint,
    ADD COLUMN credit_applied numeric,
    ADD COLUMN net_due bigint,
    ADD COLUMN delivered_value bigint,
    ADD COLUMN recognized_revenue bigint,
    ADD COLUMN billable_hours bigint,
    ADD COLUMN payout_amount bigint,
    ADD COLUMN margin_amount bigint;
COMMENT ON COLUMN invoice.number IS 'The field of the same name.';
COMMENT ON COLUMN invoice.open IS 'The client has something left to pay.';
COMMENT ON COLUMN invoice.day IS 'First day of the period.';
COMMENT ON COLUMN invoice.last_day IS 'Last day of the period.';
COMMENT ON COLUMN invoice.credit_applied IS 'In hundredths; a sum of any number of amounts.';
COMMENT ON COLUMN invoice.payout_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN invoice.margin_amount IS 'In hundredths; read only for margin:read.';
COMMENT ON COLUMN invoice.reversed IS 'The field of the same name.';
COMMENT ON COLUMN invoice.currency IS 'The field of the same name.';
COMMENT ON COLUMN invoice.gross_amount IS 'In hundredths.';
COMMENT ON COLUMN invoice.net_due IS 'In hundredths.';
COMMENT ON COLUMN invoice.delivered_value IS 'In hundredths.';
COMMENT ON COLUMN invoice.recognized_revenue IS 'In hundredths.';
COMMENT ON COLUMN invoice.billable_hours IS 'In ten-thousandths.';
CREATE INDEX invoice_month ON invoice (workspace_id, (left(day, 7) || left(last_day, 7)), position, id)
    INCLUDE (day, last_day, shown, client_id, contractor_id, status, currency, type, reversed, gross_amount, credit_applied, net_due, delivered_value, recognized_revenue, billable_hours, payout_amount, margin_amount);
CREATE INDEX invoice_number ON invoice (workspace_id, number);
CREATE INDEX invoice_open ON invoice (workspace_id, position, id) WHERE open;

ALTER TABLE charge
    ADD COLUMN status text COLLATE "C",
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN amount bigint,
    ADD COLUMN pay_amount bigint;
COMMENT ON COLUMN charge.pay_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN charge.day IS 'The field date.';
COMMENT ON COLUMN charge.currency IS 'The field of the same name.';
COMMENT ON COLUMN charge.amount IS 'In hundredths.';
CREATE INDEX charge_month ON charge (workspace_id, left(day, 7), position, id) INCLUDE (day, billed, client_id, contractor_id, status, currency, amount, pay_amount);

ALTER TABLE time_entry
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN hours bigint,
    ADD COLUMN session_count bigint,
    ADD COLUMN bill_amount bigint,
    ADD COLUMN pay_amount bigint;
COMMENT ON COLUMN time_entry.day IS 'The field work_date.';
COMMENT ON COLUMN time_entry.pay_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN time_entry.currency IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.hours IS 'In ten-thousandths.';
COMMENT ON COLUMN time_entry.session_count IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.bill_amount IS 'In hundredths.';
CREATE INDEX time_entry_month ON time_entry (workspace_id, left(day, 7), position, id) INCLUDE (day, client_id, contractor_id, status, currency, hours, session_count, bill_amount, pay_amount);

ALTER TABLE payment
    ADD COLUMN invoice_id text COLLATE "C",
    ADD COLUMN day text COLLATE "C",
    ADD COLUMN currency text COLLATE "C",
    ADD COLUMN amount bigint;
COMMENT ON COLUMN payment.invoice_id IS 'The field of the same name.';
COMMENT ON COLUMN payment.day IS 'Day of confirmed_at, in UTC.';
COMMENT ON COLUMN payment.currency IS 'The field of the same name.';
COMMENT ON COLUMN payment.amount IS 'In hundredths.';
CREATE INDEX payment_invoice ON payment (workspace_id, invoice_id) WHERE (invoice_id IS NOT NULL);
CREATE INDEX payment_month ON payment (workspace_id, left(day, 7), position, id) INCLUDE (day, direction, client_id, contractor_id, currency, amount);

ALTER TABLE removed_time_entry ADD COLUMN day text COLLATE "C";
ALTER TABLE removed_charge ADD COLUMN day text COLLATE "C";
ALTER TABLE removed_billed_charge ADD COLUMN day text COLLATE "C";
COMMENT ON COLUMN removed_time_entry.day IS 'That which the row had last.';
COMMENT ON COLUMN removed_charge.day IS 'That which the row had last.';
COMMENT ON COLUMN removed_billed_charge.day IS 'That which the row had last.';
CREATE INDEX removed_time_entry_month ON removed_time_entry (workspace_id, left(day, 7), position, id);
CREATE INDEX removed_charge_month ON removed_charge (workspace_id, left(day, 7), position, id);
CREATE INDEX removed_billed_charge_month ON removed_billed_charge (workspace_id, left(day, 7), position, id);

-- Credit is two lists of the workspace, too. A row has the client's name.
COMMENT ON TABLE client_credit IS 'Credit of clients, without its history (/v1/credits, /v1/clients/{id}/credit).';
COMMENT ON TABLE credit_move IS 'The history of clients'' credit (/v1/credit-history): one row for each entry.';
ALTER TABLE client_credit ALTER COLUMN base SET STATISTICS 0;
CREATE INDEX client_credit_list ON client_credit (workspace_id, position, id);
DROP INDEX credit_move_list;
CREATE INDEX credit_move_client ON credit_move (workspace_id, client_id, position, id);
CREATE INDEX credit_move_list ON credit_move (workspace_id, position, id);

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    RAISE EXCEPTION 'the log holds commitments to detached fields, which an older version cannot read: export the log and append it to an empty database';
END
$$;
-- +goose StatementEnd
