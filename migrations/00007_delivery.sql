-- Outgoing webhooks: addresses, how far each has come in the log, what waits
-- to be tried again, and the history of thirty days.
--
-- The history is the journal of the cursors. An attempt is one inserted row;
-- the cursor's own row moves once a second, and whoever takes a webhook over
-- reads behind it in the history what was sent already. A cursor that is
-- written with every batch would leave a version of itself behind each time,
-- and a report that is open for an hour keeps all of them.

-- +goose Up
CREATE TABLE webhook (
    workspace_id     text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    webhook_id       text COLLATE "C" NOT NULL,
    url              text        NOT NULL,
    events           text[],
    state            text COLLATE "C" NOT NULL DEFAULT 'on' CHECK (state IN ('on', 'off')),
    created_at       timestamptz NOT NULL,
    secret           bytea       NOT NULL,
    old_secret       bytea,
    old_secret_until timestamptz,
    version          integer     NOT NULL DEFAULT 1,
    epoch            integer     NOT NULL DEFAULT 1,
    failing_since    timestamptz,
    failure_marks    bigint[]    NOT NULL DEFAULT '{}',
    warned           integer     NOT NULL DEFAULT 0,
    turned_off_at    timestamptz,
    turned_off_for   text,
    PRIMARY KEY (workspace_id, webhook_id)
) WITH (fillfactor = 60);
COMMENT ON TABLE webhook IS 'Addresses that events are sent to, at most five a workspace.';
COMMENT ON COLUMN webhook.old_secret_until IS 'Until then messages are signed with the old secret too; null: there was no rotation.';
COMMENT ON COLUMN webhook.state IS 'on or off.';
COMMENT ON COLUMN webhook.webhook_id IS 'wh_ and a UUIDv7.';
COMMENT ON COLUMN webhook.events IS 'The event types it chose; null: all, also those of later versions.';
COMMENT ON COLUMN webhook.secret IS 'The signing secret, sealed with AES-256-GCM: key id (8 bytes), nonce (12), ciphertext and tag. Bound to workspace and webhook.';
COMMENT ON COLUMN webhook.old_secret IS 'The secret before the last rotation, sealed alike; signs too until old_secret_until.';
COMMENT ON COLUMN webhook.version IS 'Raised by every change a user makes, so that whoever delivers reads the row again.';
COMMENT ON COLUMN webhook.epoch IS 'Raised whenever it goes off or on. What was decided or waits under an older epoch is void.';
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on; null: it does not fail.';
COMMENT ON COLUMN webhook.failure_marks IS 'Unix milliseconds of failed attempts, thinned out: enough to know whether one fell into each third of the time after which it is turned off.';
COMMENT ON COLUMN webhook.warned IS 'Warnings sent since failing_since: 0, 1 or 2.';
COMMENT ON COLUMN webhook.turned_off_at IS 'When it was turned off because every attempt failed; null while on.';
COMMENT ON COLUMN webhook.turned_off_for IS 'The last failure before it was turned off, in words.';

-- The command line names a webhook by its id alone.
CREATE INDEX webhook_by_id ON webhook (webhook_id);

CREATE TABLE webhook_cursor (
    workspace_id    text COLLATE "C" NOT NULL,
    webhook_id      text COLLATE "C" NOT NULL,
    position        bigint NOT NULL CHECK (position >= 0),
    replay_position bigint,
    replay_until    bigint,
    holder          text COLLATE "C",
    PRIMARY KEY (workspace_id, webhook_id),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhook (workspace_id, webhook_id) ON DELETE CASCADE,
    CHECK ((replay_position IS NULL) = (replay_until IS NULL))
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE webhook_cursor IS 'How far each webhook has come in its workspace''s log, and who delivers it.';
COMMENT ON COLUMN webhook_cursor.position IS 'Every entry up to here was sent to the webhook once, or is not for it. Those after it that have a row in webhook_delivery were sent, too.';
COMMENT ON COLUMN webhook_cursor.replay_position IS 'While missed events are sent: all up to here are done.';
COMMENT ON COLUMN webhook_cursor.replay_until IS 'The last position of the missed events; null: none are being sent.';
COMMENT ON COLUMN webhook_cursor.holder IS 'The webhook_instance that delivers it, as long as that one''s lease lasts; null: nobody does.';
CREATE INDEX webhook_cursor_held ON webhook_cursor (holder) WHERE holder IS NOT NULL;

CREATE TABLE webhook_instance (
    workspace_id text COLLATE "C" NOT NULL DEFAULT '*' CHECK (workspace_id = '*'),
    instance_id  text COLLATE "C" NOT NULL,
    lease_until  timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, instance_id)
) WITH (fillfactor = 30);
COMMENT ON TABLE webhook_instance IS 'The processes that deliver. One lease a process covers all webhooks it holds, so that renewing costs one row.';
COMMENT ON COLUMN webhook_instance.instance_id IS 'Made by the process when it starts.';
COMMENT ON COLUMN webhook_instance.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN webhook_instance.lease_until IS 'By the database''s clock. After it, others take its webhooks over.';

CREATE TABLE webhook_waiting (
    workspace_id    text COLLATE "C" NOT NULL,
    webhook_id      text COLLATE "C" NOT NULL,
    position        bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    attempts        integer     NOT NULL,
    before          integer     NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    once            boolean     NOT NULL DEFAULT false,
    epoch           integer     NOT NULL,
    PRIMARY KEY (workspace_id, webhook_id, position),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhook (workspace_id, webhook_id) ON DELETE CASCADE
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE webhook_waiting IS 'Deliveries that wait for their next attempt; only failures and "Send again" get here.';
COMMENT ON COLUMN webhook_waiting.next_attempt_at IS 'Not before this moment is it tried again.';
COMMENT ON COLUMN webhook_waiting.created_at IS 'That of the row in webhook_delivery, which it finds it by.';
COMMENT ON COLUMN webhook_waiting.attempts IS 'Attempts made so far.';
COMMENT ON COLUMN webhook_waiting.before IS 'How many of them were made before the retry schedule was begun: those of a failed delivery that is sent again as missed.';
COMMENT ON COLUMN webhook_waiting.once IS 'True for "Send again": whatever comes of the attempt, there is no further one.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when it failed. With an older one it is to be cancelled.';
CREATE INDEX webhook_waiting_due ON webhook_waiting (workspace_id, webhook_id, next_attempt_at);
CREATE INDEX webhook_waiting_next ON webhook_waiting (next_attempt_at);

CREATE TABLE webhook_delivery (
    workspace_id    text COLLATE "C" NOT NULL,
    webhook_id      text COLLATE "C" NOT NULL,
    position        bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    event_id        text COLLATE "C" NOT NULL,
    event_type      text COLLATE "C" NOT NULL,
    state           text COLLATE "C" NOT NULL,
    next_attempt_at timestamptz,
    attempts        jsonb       NOT NULL,
    PRIMARY KEY (workspace_id, webhook_id, position, created_at)
) PARTITION BY RANGE (created_at);
COMMENT ON TABLE webhook_delivery IS 'Every delivery of the last thirty days: one row each, partitioned by day, whole days dropped.';
COMMENT ON COLUMN webhook_delivery.position IS 'The event''s position in the log, where its body is.';
COMMENT ON COLUMN webhook_delivery.created_at IS 'When it was sent for the first time.';
COMMENT ON COLUMN webhook_delivery.state IS 'pending, succeeded, failed or cancelled.';
COMMENT ON COLUMN webhook_delivery.next_attempt_at IS 'When a pending one is tried again.';
COMMENT ON COLUMN webhook_delivery.attempts IS 'Array of {at, status, error, duration_ms, answer}, oldest first.';
CREATE INDEX webhook_delivery_newest ON webhook_delivery (workspace_id, webhook_id, created_at DESC, position DESC) INCLUDE (event_type);
CREATE INDEX webhook_delivery_troubled ON webhook_delivery (workspace_id, webhook_id, state, created_at DESC, position DESC) WHERE state <> 'succeeded';

-- Rows of days for which there is no partition yet, so that an insert never
-- fails for want of one.
CREATE TABLE webhook_delivery_other PARTITION OF webhook_delivery DEFAULT;

CREATE TABLE webhook_hour (
    workspace_id text COLLATE "C" NOT NULL,
    webhook_id   text COLLATE "C" NOT NULL,
    hour         timestamptz NOT NULL,
    outcome      text COLLATE "C" NOT NULL,
    attempts     bigint      NOT NULL,
    PRIMARY KEY (workspace_id, webhook_id, hour, outcome),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhook (workspace_id, webhook_id) ON DELETE CASCADE
) WITH (fillfactor = 50);
COMMENT ON TABLE webhook_hour IS 'Attempts of each webhook by hour and outcome, for the count of the last 24 hours. Written every second at most.';
COMMENT ON COLUMN webhook_hour.attempts IS 'How many did.';
COMMENT ON COLUMN webhook_hour.outcome IS 'How the attempts ended.';
COMMENT ON COLUMN webhook_hour.hour IS 'Begin of the hour, by the clock.';

CREATE TABLE webhook_mail (
    workspace_id    text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    mail_id         text COLLATE "C" NOT NULL,
    webhook_id      text COLLATE "C" NOT NULL,
    subject         text        NOT NULL,
    body            text        NOT NULL,
    created_at      timestamptz NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    error           text,
    PRIMARY KEY (workspace_id, mail_id)
);
COMMENT ON TABLE webhook_mail IS 'Mails to the finance team that are not sent yet. A sent one is deleted.';
COMMENT ON COLUMN webhook_mail.attempts IS 'How often sending it was tried.';
COMMENT ON COLUMN webhook_mail.mail_id IS 'Made from what the mail is about, so that it is queued once.';
COMMENT ON COLUMN webhook_mail.next_attempt_at IS 'Not before this moment is it tried; moved ahead while somebody sends it.';
COMMENT ON COLUMN webhook_mail.error IS 'Why the last attempt failed.';
CREATE INDEX webhook_mail_next ON webhook_mail (next_attempt_at);

-- Attempts, cursors, health and counts, as one statement for however many
-- webhooks have something to record. Arrays of one group are equally long.
--
-- Repeating a call whose answer was lost changes nothing: the first attempt of
-- a delivery is there already, and a later one knows how many came before it.
-- Counts alone may be counted twice then.
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

-- Cancels up to n deliveries that wait under an older epoch than the
-- webhook's own, and says how many.
-- +goose StatementBegin
CREATE FUNCTION webhook_cancel(w text, h text, n integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    done integer;
BEGIN
    WITH void AS (
        SELECT q.position, q.created_at FROM webhook_waiting q
          JOIN webhook k ON k.workspace_id = q.workspace_id AND k.webhook_id = q.webhook_id
         WHERE q.workspace_id = w AND q.webhook_id = h AND q.epoch < k.epoch LIMIT n
    ), gone AS (
        DELETE FROM webhook_waiting q USING void v
         WHERE q.workspace_id = w AND q.webhook_id = h AND q.position = v.position
        RETURNING q.position, q.created_at
    ), shown AS (
        UPDATE webhook_delivery d SET state = 'cancelled', next_attempt_at = NULL FROM gone g
         WHERE d.workspace_id = w AND d.webhook_id = h AND d.position = g.position AND d.created_at = g.created_at
           AND d.state = 'pending'
    )
    SELECT count(*) INTO done FROM gone;
    RETURN done;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_cancel IS 'Cancels deliveries that wait under an older epoch of the webhook; returns how many.';

-- Makes the days from yesterday to a week ahead and drops those before the
-- given one. A day whose rows had to go to the default partition takes them
-- over.
--
-- It gives up after a moment when somebody reads the history in a long
-- transaction: waiting for that lock would make every insert wait behind it.
-- +goose StatementBegin
CREATE FUNCTION webhook_delivery_days(today date, oldest date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    day  date;
    name text;
    p    record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('webhook_delivery_days')) THEN
        RETURN; -- another process is at it
    END IF;
    PERFORM set_config('lock_timeout', '200ms', true);
    FOR day IN SELECT generate_series(today - 1, today + 7, interval '1 day')::date LOOP
        name := 'webhook_delivery_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE webhook_delivery INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
        EXECUTE format('WITH moved AS (DELETE FROM webhook_delivery_other WHERE created_at >= %L AND created_at < %L RETURNING *)
                        INSERT INTO %I SELECT * FROM moved', day || ' 00:00Z', (day + 1) || ' 00:00Z', name);
        EXECUTE format('ALTER TABLE webhook_delivery ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       name, day || ' 00:00Z', (day + 1) || ' 00:00Z');
    END LOOP;
    DELETE FROM webhook_delivery_other WHERE created_at < oldest::timestamp AT TIME ZONE 'UTC';
    FOR p IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = 'webhook_delivery'::regclass
                AND c.relname ~ '^webhook_delivery_[0-9]{8}$' AND right(c.relname, 8) < to_char(oldest, 'YYYYMMDD') LOOP
        EXECUTE format('DROP TABLE %I', p.relname);
    END LOOP;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_delivery_days IS 'Makes and drops the daily partitions of webhook_delivery. Fails with lock_not_available while a long transaction reads the history; call it again later.';

-- +goose Down
DROP FUNCTION webhook_delivery_days, webhook_cancel, webhook_record;
DROP TABLE webhook_mail, webhook_hour, webhook_delivery, webhook_waiting, webhook_instance, webhook_cursor, webhook;
