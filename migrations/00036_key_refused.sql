-- The request log's chart of one key comes from counts by interval, also its requests
-- that were refused for another reason than the key's limit.

-- +goose Up
ALTER TABLE key_rollup ADD COLUMN refused bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN key_rollup.refused IS 'Requests that were refused for another reason, such as a revoked key.';

-- +goose Down
ALTER TABLE key_rollup DROP COLUMN refused;
