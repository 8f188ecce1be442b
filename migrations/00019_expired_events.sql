-- History is not news: an event that is past the retention when its turn comes
-- is not sent, because nobody could look it up.

-- +goose Up
ALTER TABLE webhook_cursor ADD COLUMN expired bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN webhook_cursor.expired IS 'How many events up to position, and up to replay_position, were past the retention when their turn came, and were not sent.';

-- +goose Down
ALTER TABLE webhook_cursor DROP COLUMN expired;
