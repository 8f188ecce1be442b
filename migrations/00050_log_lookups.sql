-- The log is read by its keys whatever the statistics say. While they do not know a workspace,
-- PostgreSQL expects one row there, and takes the lowest index that begins with the workspace also
-- for "workspace_id = w AND id = x": it read the whole log of the workspace for each entry of an
-- append. A range of one value in the order of its column can be read without a sort along the
-- right index alone, and the functions are planned without sorts.
--
-- To read the schema, open schema.sql: it is made from the migrations.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    change record;
    was    text;
    new    text;
BEGIN
    FOR change IN SELECT * FROM (VALUES
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         'SELECT FROM event_log e WHERE e.workspace_id = w AND e.id = u.id LIMIT 1',
         'SELECT FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN u.id AND u.id ORDER BY e.id LIMIT 1'),
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         'FROM event_log e WHERE e.workspace_id = w AND e.id = ids[i];',
         'FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN ids[i] AND ids[i] ORDER BY e.id;'),
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         E'        -- One look-up by the unique index for each id: as id = ANY (ids) it could\n        -- become a walk through the whole workspace.\n',
         E'        -- One look-up for each id, in the order of ids: this function is planned without\n        -- sorts, so that only the unique index can be read, whatever the statistics say.\n'),
        ('log_trace(text, text[], text[], text[])',
         'FROM event_log e WHERE e.workspace_id = w AND e.id = t.id)',
         'FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN t.id AND t.id ORDER BY e.id)'),
        ('log_trace(text, text[], text[], text[])',
         'NOT EXISTS (SELECT FROM append_trace a WHERE a.workspace_id = w AND a.event_id = t.id)',
         '(SELECT a.event_id FROM append_trace a WHERE a.workspace_id = w AND a.event_id BETWEEN t.id AND t.id ORDER BY a.event_id LIMIT 1) IS NULL'),
        ('log_position_since(text, timestamptz)',
         'AND e.position = (lo + hi) / 2 LIMIT 1)',
         'AND e.position BETWEEN (lo + hi) / 2 AND (lo + hi) / 2 ORDER BY e.position LIMIT 1)'),
        ('log_position_since(text, timestamptz)',
         '-- LIMIT keeps each half one look-up by the position, whatever the planner thinks of the log.',
         '-- The order keeps each half one look-up by the position, whatever the statistics say.')
    ) AS c (function, of, becomes) LOOP
        was := pg_get_functiondef(change.function::regprocedure);
        new := replace(was, change.of, change.becomes);
        IF new = was THEN
            RAISE EXCEPTION '% is not as this migration expects it', change.function;
        END IF;
        EXECUTE new;
    END LOOP;
END
$$;
-- +goose StatementEnd
ALTER FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) SET enable_sort = off;
ALTER FUNCTION log_trace(text, text[], text[], text[]) SET enable_sort = off;
-- Its one sort has an estimate for which PostgreSQL would compile the plan.
ALTER FUNCTION log_trace(text, text[], text[], text[]) SET jit = off;
ALTER FUNCTION log_position_since(text, timestamptz) SET enable_sort = off;

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    change record;
    was    text;
    new    text;
BEGIN
    FOR change IN SELECT * FROM (VALUES
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         'SELECT FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN u.id AND u.id ORDER BY e.id LIMIT 1',
         'SELECT FROM event_log e WHERE e.workspace_id = w AND e.id = u.id LIMIT 1'),
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         'FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN ids[i] AND ids[i] ORDER BY e.id;',
         'FROM event_log e WHERE e.workspace_id = w AND e.id = ids[i];'),
        ('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
         E'        -- One look-up for each id, in the order of ids: this function is planned without\n        -- sorts, so that only the unique index can be read, whatever the statistics say.\n',
         E'        -- One look-up by the unique index for each id: as id = ANY (ids) it could\n        -- become a walk through the whole workspace.\n'),
        ('log_trace(text, text[], text[], text[])',
         'FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN t.id AND t.id ORDER BY e.id)',
         'FROM event_log e WHERE e.workspace_id = w AND e.id = t.id)'),
        ('log_trace(text, text[], text[], text[])',
         '(SELECT a.event_id FROM append_trace a WHERE a.workspace_id = w AND a.event_id BETWEEN t.id AND t.id ORDER BY a.event_id LIMIT 1) IS NULL',
         'NOT EXISTS (SELECT FROM append_trace a WHERE a.workspace_id = w AND a.event_id = t.id)'),
        ('log_position_since(text, timestamptz)',
         'AND e.position BETWEEN (lo + hi) / 2 AND (lo + hi) / 2 ORDER BY e.position LIMIT 1)',
         'AND e.position = (lo + hi) / 2 LIMIT 1)'),
        ('log_position_since(text, timestamptz)',
         '-- The order keeps each half one look-up by the position, whatever the statistics say.',
         '-- LIMIT keeps each half one look-up by the position, whatever the planner thinks of the log.')
    ) AS c (function, of, becomes) LOOP
        was := pg_get_functiondef(change.function::regprocedure);
        new := replace(was, change.of, change.becomes);
        IF new = was THEN
            RAISE EXCEPTION '% is not as this migration expects it', change.function;
        END IF;
        EXECUTE new;
    END LOOP;
END
$$;
-- +goose StatementEnd
ALTER FUNCTION log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean) RESET enable_sort;
ALTER FUNCTION log_trace(text, text[], text[], text[]) RESET enable_sort;
ALTER FUNCTION log_trace(text, text[], text[], text[]) RESET jit;
ALTER FUNCTION log_position_since(text, timestamptz) RESET enable_sort;
