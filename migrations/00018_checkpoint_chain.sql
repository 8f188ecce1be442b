-- A consumer group keeps where it is in the log's chain, not only its position, so
-- that it finds out when the log is another one: an older backup was restored, or a
-- replica without the last commits took over.

-- +goose Up
ALTER TABLE log_checkpoint ADD COLUMN chain bytea CHECK (octet_length(chain) = 8);
COMMENT ON COLUMN log_checkpoint.chain IS 'The first 8 bytes of the chain value at position; null: not kept. Consumer groups of other programs keep it.';

-- +goose Down
ALTER TABLE log_checkpoint DROP COLUMN chain;
