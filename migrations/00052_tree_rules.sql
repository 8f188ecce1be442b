-- By which rules events are leaves of the trees is stored with each tree. Processes of the version
-- before, which run beside while an installation is upgraded, give none: they cannot write trees any
-- more, so that none has leaves by two rules. Their trees stay where they are, and they log that.
--
-- To read the schema, open schema.sql: it is made from the migrations.

-- +goose Up
ALTER TABLE event_tree ADD COLUMN rules smallint NOT NULL DEFAULT 2;
ALTER TABLE event_tree ALTER COLUMN rules DROP DEFAULT;
COMMENT ON COLUMN event_tree.rules IS 'By which rules events are its leaves. Who writes a tree has to say it, so that versions of other rules cannot.';

-- +goose Down
ALTER TABLE event_tree DROP COLUMN rules;
