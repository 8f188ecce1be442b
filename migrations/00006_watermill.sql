-- How a statement alone appends to the log: what the Watermill publisher runs
-- inside a producer's transaction.

-- +goose Up
-- Entries are a JSON array of objects: index (of the message), id, type,
-- created_at (absent: now), data (a string: the canonical form, which the
-- caller has checked) and public (a string, absent for internal types).
--
-- A refusal is an exception, because only that keeps a producer from
-- committing its own rows without the entries they belong to. Whoever reads
-- the log is woken when the transaction commits.
-- +goose StatementBegin
CREATE FUNCTION log_publish(w text, now timestamptz, entries json) RETURNS void LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION log_publish(text, timestamptz, json) IS 'log_append as one statement of a producer''s transaction: a refused entry is an exception of SQLSTATE LF001, whose detail is JSON.';

-- +goose Down
DROP FUNCTION log_publish(text, timestamptz, json);
