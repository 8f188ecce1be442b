-- When an entry was appended, which for imported history is long after it was
-- published: the lag of what reads the log counts from then.

-- +goose Up
-- Two statements, so that the rows that are there are not written again.
ALTER TABLE event_log ADD COLUMN appended_at timestamptz;
ALTER TABLE event_log ALTER COLUMN appended_at SET DEFAULT now();
COMMENT ON COLUMN event_log.appended_at IS 'When the transaction that appended it began, by the database''s clock; null: before version 25 of the schema. Not part of the entry: neither the chain nor an export has it.';

-- +goose Down
ALTER TABLE event_log DROP COLUMN appended_at;
