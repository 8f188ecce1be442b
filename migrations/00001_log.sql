-- The log: the source of truth. Everything else in this database can be made
-- again from it.
--
-- Every key begins with workspace_id, nothing draws from a sequence, and one
-- transaction touches one workspace wherever it can: the schema can be sharded
-- by workspace as it is. Identifiers compare bytewise (COLLATE "C"), because
-- lists promise bytewise order whatever the database's own collation.

-- +goose Up
CREATE TABLE workspace (
    workspace_id text COLLATE "C" PRIMARY KEY CHECK (workspace_id ~ '^[A-Za-z0-9_-]{1,64}$'),
    name         text        NOT NULL,
    notify_email text,
    created_at   timestamptz NOT NULL
);
COMMENT ON TABLE workspace IS 'One customer of the billing product. Made by its first entry, or by hand.';
COMMENT ON COLUMN workspace.name IS 'Shown on /v1/me and in the console; the id until set.';
COMMENT ON COLUMN workspace.notify_email IS 'The finance team: told when a webhook fails or is turned off. Null: nobody.';

CREATE TABLE log_head (
    workspace_id text COLLATE "C" PRIMARY KEY REFERENCES workspace (workspace_id),
    position     bigint      NOT NULL CHECK (position >= 0),
    created_at   timestamptz NOT NULL,
    chain        bytea       NOT NULL CHECK (octet_length(chain) = 32)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE log_head IS 'The newest entry of each workspace. Its row lock is what makes positions gapless and in commit order.';
COMMENT ON COLUMN log_head.position IS 'Position of the newest entry; 0 before the first.';
COMMENT ON COLUMN log_head.created_at IS 'Publish time of the newest entry; -infinity before the first. The next one is never before it.';
COMMENT ON COLUMN log_head.chain IS 'Chain value of the newest entry; SHA-256 of the workspace id before the first.';

CREATE TABLE event_log (
    workspace_id text COLLATE "C" NOT NULL,
    position     bigint      NOT NULL CHECK (position > 0),
    id           text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    created_at   timestamptz NOT NULL,
    data         json        NOT NULL,
    public_event text,
    chain        bytea       NOT NULL,
    PRIMARY KEY (workspace_id, position),
    UNIQUE (workspace_id, id)
);
COMMENT ON TABLE event_log IS 'The append-only log. Refuses UPDATE, DELETE and TRUNCATE.';
COMMENT ON COLUMN event_log.position IS '1, 2, 3, … in its workspace, without a gap, in commit order.';
COMMENT ON COLUMN event_log.created_at IS 'Publish time, whole milliseconds, never before that of the position below.';
COMMENT ON COLUMN event_log.data IS 'The fields in canonical form; json, not jsonb, because the chain covers the exact bytes.';
COMMENT ON COLUMN event_log.public_event IS 'What the feed and webhooks show: ids only, byte for byte. Null for internal types. Stored so that neither ever has to read data.';
COMMENT ON COLUMN event_log.chain IS 'SHA-256 over the chain before it and this entry.';

-- The feed reads public entries only; without these a long import of internal
-- entries would have to be stepped over by every poll.
CREATE INDEX event_log_feed ON event_log (workspace_id, position) WHERE public_event IS NOT NULL;
CREATE INDEX event_log_feed_type ON event_log (workspace_id, type, position) WHERE public_event IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION event_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on event_log is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Entries are never changed or removed; append a new entry instead.';
END
$$;
-- +goose StatementEnd

COMMENT ON FUNCTION event_log_refuse() IS 'Keeps the log append-only.';

CREATE TRIGGER event_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event_log
    FOR EACH STATEMENT EXECUTE FUNCTION event_log_refuse();

-- The publish times of a workspace rise with the positions, so the first
-- position at or after a time is found by halving, without an index that
-- every append would pay for.
-- +goose StatementBegin
CREATE FUNCTION log_position_since(w text, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    lo  bigint := 1;
    hi  bigint;
    mid bigint;
    hit boolean;
BEGIN
    SELECT h.position + 1 INTO hi FROM log_head h WHERE h.workspace_id = w;
    IF hi IS NULL THEN
        RETURN 1;
    END IF;
    WHILE lo < hi LOOP
        mid := (lo + hi) / 2;
        SELECT e.created_at >= since INTO hit FROM event_log e WHERE e.workspace_id = w AND e.position = mid;
        IF hit THEN hi := mid; ELSE lo := mid + 1; END IF;
    END LOOP;
    RETURN lo;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_position_since(text, timestamptz) IS 'The first position whose entry was published at or after the time; one past the newest when there is none.';

CREATE TABLE log_checkpoint (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    consumer     text COLLATE "C" NOT NULL,
    position     bigint      NOT NULL DEFAULT 0,
    moved_at     timestamptz,
    failures     integer     NOT NULL DEFAULT 0,
    failed_to    bigint,
    segment_max  integer,
    error        text,
    retry_at     timestamptz,
    quarantined  boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, consumer)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE log_checkpoint IS 'How far each consumer has come in each workspace. The position of consumer ''read_models'' is the workspace''s visible position.';
COMMENT ON COLUMN log_checkpoint.consumer IS 'Who handles the entries: read_models is the projector.';
COMMENT ON COLUMN log_checkpoint.position IS 'The last entry whose effect is committed; never moves back.';
COMMENT ON COLUMN log_checkpoint.moved_at IS 'When position last moved; null before it did.';
COMMENT ON COLUMN log_checkpoint.failures IS 'Failed attempts since position last moved without trouble.';
COMMENT ON COLUMN log_checkpoint.failed_to IS 'The last position of the segment that failed first; the trouble is over when position has reached it.';
COMMENT ON COLUMN log_checkpoint.segment_max IS 'While halving towards the entry that fails: the most entries the next attempt takes. Null: the usual size.';
COMMENT ON COLUMN log_checkpoint.error IS 'The last failure in words; null after a success.';
COMMENT ON COLUMN log_checkpoint.retry_at IS 'Not before this moment is the next attempt made.';
COMMENT ON COLUMN log_checkpoint.quarantined IS 'The entry after position has failed alone, and again: this workspace waits for a newer program.';
CREATE INDEX log_checkpoint_troubled ON log_checkpoint (workspace_id, consumer) WHERE failures > 0;

-- What an entry is in the chain, and in the feed: once, for both ways below.
-- Stable, as what they call is: only so they become part of what uses them.
CREATE FUNCTION log_stamp(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
COMMENT ON FUNCTION log_stamp(timestamptz) IS 'A publish time in its public form.';

CREATE FUNCTION log_chain(before bytea, pos bigint, id text, type text, stamp text, data text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(before || convert_to(pos::text || E'\n' || id || E'\n' || type || E'\n' || stamp || E'\n' || data, 'UTF8'));
COMMENT ON FUNCTION log_chain(bytea, bigint, text, text, text, text) IS 'The chain value of an entry, from the one before it.';

CREATE FUNCTION log_public(id text, type text, stamp text, data text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN '{"id":"' || id || '","type":"' || type || '","created_at":"' || stamp || '","data":' || data || '}';
COMMENT ON FUNCTION log_public(text, text, text, text) IS 'The public form of an entry; null for internal types, whose data is null.';

-- Every append, from whichever program, is this one statement: the chain and
-- the positions are made where the lock is, in one round trip.
--
-- Arrays hold one element per entry, in order. created gives the publish time
-- of imported history, null for now. public is the data object of the public
-- form, null for internal types. The caller has checked forms (domain) and
-- that no id occurs twice among the entries.
--
-- outcomes: appended, skipped (the workspace holds the same entry already),
-- other_content (it holds the id with other type or data), before_newest,
-- ahead (more than 5 minutes after now). With whole, nothing is appended
-- unless every entry can be; without, each entry stands for itself. When
-- expected is given and is not the newest position, nothing is appended and
-- outcomes is null.
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
CREATE FUNCTION workspace_create(w text, n text, now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workspace (workspace_id, name, created_at) VALUES (w, n, now) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO log_head (workspace_id, position, created_at, chain)
    VALUES (w, 0, '-infinity', sha256(convert_to(w, 'UTF8')));
    INSERT INTO log_checkpoint (workspace_id, consumer) VALUES (w, 'read_models');
    RETURN true;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION workspace_create(text, text, timestamptz) IS 'Makes a workspace with an empty log; false when it is there already.';

-- +goose StatementBegin
CREATE FUNCTION workspace_unmake(w text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM log_checkpoint WHERE workspace_id = w;
    DELETE FROM log_head WHERE workspace_id = w;
    DELETE FROM workspace WHERE workspace_id = w;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION workspace_unmake(text) IS 'Takes back the workspace that the same transaction made for entries which were then refused.';

-- +goose Down
DROP FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[]);
DROP FUNCTION log_stamp(timestamptz);
DROP FUNCTION log_chain(bytea, bigint, text, text, text, text);
DROP FUNCTION log_public(text, text, text, text);
DROP FUNCTION workspace_create(text, text, timestamptz);
DROP FUNCTION workspace_unmake(text);
DROP TABLE log_checkpoint, event_log, log_head, workspace;
DROP FUNCTION log_position_since(text, timestamptz);
DROP FUNCTION event_log_refuse();
