-- Which trace an entry was appended in, so that the trace of its delivery can name it.
-- It is beside the log, because it says nothing about what was appended: only appends
-- of traces that are recorded have a row, and it is deleted after some days.

-- +goose Up
CREATE TABLE append_trace (
    workspace_id text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    traceparent  text COLLATE "C" NOT NULL CHECK (octet_length(traceparent) = 55),
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    -- With the trace, so that no transaction waits for another one's row.
    PRIMARY KEY (workspace_id, event_id, traceparent)
);
CREATE INDEX append_trace_recorded ON append_trace (recorded_at);
COMMENT ON TABLE append_trace IS 'The traces that entries were appended in, for a few days; nothing but traces of deliveries needs it.';
COMMENT ON COLUMN append_trace.event_id IS 'The id of the entry.';
COMMENT ON COLUMN append_trace.traceparent IS 'The span of the append, in the form of the header traceparent (W3C Trace Context, version 00).';
COMMENT ON COLUMN append_trace.recorded_at IS 'When that was, by the clock of the database.';

-- It takes the outcomes of log_append, so that it runs after it, and records nothing of
-- what was not appended. An append does not wait for a table that somebody has locked.
-- +goose StatementBegin
CREATE FUNCTION log_trace(w text, ids text[], traces text[], outcomes text[]) RETURNS void LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION log_trace(text, text[], text[], text[]) IS 'Records the traces of entries that a call of log_append has appended; an empty trace is none.';
-- +goose StatementBegin
DO $$
DECLARE
    r regrole;
BEGIN
    EXECUTE format('ALTER FUNCTION log_trace(text, text[], text[], text[]) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
    REVOKE EXECUTE ON FUNCTION log_trace(text, text[], text[], text[]) FROM PUBLIC;
    -- Accounts that append call it.
    FOR r IN SELECT a.grantee::regrole FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
              WHERE p.oid = 'log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)'::regprocedure
                AND a.grantee NOT IN (0, p.proowner) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION log_trace(text, text[], text[], text[]) TO %s', r);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION log_trace(text, text[], text[], text[]);
DROP TABLE append_trace;
