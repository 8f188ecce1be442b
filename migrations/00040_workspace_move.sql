-- A workspace can be moved to another database (docs/operations/moving.md). Each side
-- keeps in its own database how far the move has come, so that it can be run again or undone.
--
-- An append looks at the head, whose row it locks anyway: a head that is closed refuses it
-- in the words of log_closed. Whatever closes a head updates its row, so that a producer's
-- transaction with an older snapshot is ended by the database and does not pass.

-- +goose Up
ALTER TABLE log_head ADD COLUMN closed_until timestamptz;
COMMENT ON COLUMN log_head.closed_until IS 'Appends are refused until then, by the database''s clock: for seconds while the workspace is fenced for a move, and infinity where it is being received, or has moved away. Null: they are not.';

ALTER TABLE workspace
    ADD COLUMN move     text CHECK (move IN ('receiving', 'holding', 'moved')),
    ADD COLUMN moved_to text;
COMMENT ON COLUMN workspace.move IS 'receiving: entries come from another database, and nobody else may append; holding: its webhooks are held for a move, and are not to be changed; moved: another database has it, and nothing here is to be changed. Null: it is here.';
COMMENT ON COLUMN workspace.moved_to IS 'The address of the API that has it now, for readers who ask here; null: none was given.';

CREATE TABLE workspace_move (
    workspace_id   text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES workspace (workspace_id),
    move_id        uuid             NOT NULL,
    receiver       uuid,
    state          text             NOT NULL CHECK (state IN ('copying', 'holding', 'fenced', 'moved', 'removing', 'removed', 'receiving', 'ready', 'open', 'complete', 'abandoned')),
    other          text             NOT NULL,
    public_address text,
    changed_at     timestamptz      NOT NULL,
    fenced_at      timestamptz,
    opened_after   interval,
    position       bigint,
    chain          bytea            CHECK (octet_length(chain) = 32),
    held           jsonb            NOT NULL DEFAULT '{}',
    progress       jsonb            NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE workspace_move IS 'The last move of each workspace from or to this database, and how far it has come.';
COMMENT ON COLUMN workspace_move.move_id IS 'The same on both sides.';
COMMENT ON COLUMN workspace_move.receiver IS 'Made by the side that receives, and noted by the other, which moves to no second one; null: not noted yet.';
COMMENT ON COLUMN workspace_move.state IS 'Of the side that gives: copying, holding, fenced, moved, removing, removed; of the one that receives: receiving, ready, open, complete, or abandoned.';
COMMENT ON COLUMN workspace_move.other IS 'Server and database of the other side, without an account.';
COMMENT ON COLUMN workspace_move.public_address IS 'As in workspace.moved_to, from when it has moved.';
COMMENT ON COLUMN workspace_move.changed_at IS 'When it got into this state.';
COMMENT ON COLUMN workspace_move.fenced_at IS 'When appends were last closed for the move.';
COMMENT ON COLUMN workspace_move.opened_after IS 'How long appends were refused, as the side that receives knows it; null: it is not open.';
COMMENT ON COLUMN workspace_move.position IS 'The newest entry when it moved; null: it has not.';
COMMENT ON COLUMN workspace_move.chain IS 'The chain value of that entry.';
COMMENT ON COLUMN workspace_move.held IS 'The states that webhooks had before they were held, by id.';
COMMENT ON COLUMN workspace_move.progress IS 'How far each table of the history is copied: the key of the last row, by table.';

CREATE TABLE cursor_key (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    value        bytea            NOT NULL CHECK (octet_length(value) = 32),
    since        timestamptz      NOT NULL,
    PRIMARY KEY (workspace_id, value)
);
COMMENT ON TABLE cursor_key IS 'Keys under which other databases sealed cursors of a workspace that has come from there. They open cursors of this workspace only.';
COMMENT ON COLUMN cursor_key.value IS 'The key, derived there from that service''s key and the workspace.';
COMMENT ON COLUMN cursor_key.since IS 'When the workspace came with it.';

-- +goose StatementBegin
CREATE FUNCTION log_closed(w text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    m text;
    t text;
BEGIN
    SELECT k.move, k.moved_to INTO m, t FROM workspace k WHERE k.workspace_id = w;
    RAISE EXCEPTION '%', CASE m
        WHEN 'moved' THEN format('the workspace %s has moved%s', w, coalesce(' to ' || t, ' to another place'))
        WHEN 'receiving' THEN format('the workspace %s is being moved here, and is not open yet', w)
        ELSE format('the workspace %s is being moved', w) END
        USING ERRCODE = 'LF009',
              DETAIL = json_build_object('workspace', w, 'move', coalesce(m, ''), 'to', coalesce(t, ''))::text,
              HINT = CASE m WHEN 'moved' THEN 'Nothing of this call was appended. Append it there.'
                            ELSE 'Nothing of this call was appended. Append it again in some seconds.' END;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_closed(text) IS 'Refuses an append to a workspace whose head is closed, with SQLSTATE LF009 and a detail that is JSON.';

-- The one new step of log_append, after it has locked the head. A call that shares its
-- transaction with other workspaces (wait = 0) finds a head that is not free, and makes its
-- append apart, where the refusal reaches nobody else.
-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)'::regprocedure);
    new text := regexp_replace(was, E'\n    head := h\\.position;\n', E'
    IF h.closed_until > clock_timestamp() THEN
        IF wait = 0 THEN
            RETURN;
        END IF;
        PERFORM log_closed(w);
    END IF;
    head := h.position;
');
BEGIN
    IF new = was THEN
        RAISE EXCEPTION 'log_append is not as this migration expects it';
    END IF;
    EXECUTE new;
END
$$;
-- +goose StatementEnd

-- The log stays append-only. What may be deleted is the log of one workspace, by the owner
-- of the tables, in a transaction that names it: after another database has it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('ledgerfeed.removes', true) <> '' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the log is append-only: % on event_log is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Entries are never changed or removed; append a new entry instead.';
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION event_log_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('ledgerfeed.removes', true) <> '' AND EXISTS (SELECT FROM removed r WHERE r.workspace_id <> current_setting('ledgerfeed.removes', true)) THEN
        RAISE EXCEPTION 'the log is append-only: DELETE on event_log is refused'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Only entries of the workspace that the transaction names may be removed.';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION event_log_removed() IS 'Refuses to remove entries of another workspace than the one that the transaction names.';
CREATE TRIGGER event_log_removes_one AFTER DELETE ON event_log REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION event_log_removed();

-- +goose Down
DROP TRIGGER event_log_removes_one ON event_log;
DROP FUNCTION event_log_removed();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on event_log is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Entries are never changed or removed; append a new entry instead.';
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM workspace WHERE move IS NOT NULL) THEN
        RAISE EXCEPTION 'a workspace is being moved or has moved, and would be open to appends again: end its move, or bring it back, first';
    END IF;
    EXECUTE replace(pg_get_functiondef('log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)'::regprocedure), E'
    IF h.closed_until > clock_timestamp() THEN
        IF wait = 0 THEN
            RETURN;
        END IF;
        PERFORM log_closed(w);
    END IF;
', E'\n');
END
$$;
-- +goose StatementEnd
DROP FUNCTION log_closed(text);
DROP TABLE cursor_key;
DROP TABLE workspace_move;
ALTER TABLE workspace DROP COLUMN move, DROP COLUMN moved_to;
ALTER TABLE log_head DROP COLUMN closed_until;
