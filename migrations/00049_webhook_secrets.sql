-- Every rotation of a webhook's secret keeps its promise: all secrets whose time has not ended
-- sign. old_secret stays the newest of those before the current one, as the version before knows
-- it; the ones before that follow here.

-- +goose Up
ALTER TABLE webhook
    ADD COLUMN older_secrets bytea[] NOT NULL DEFAULT '{}',
    ADD COLUMN older_secrets_until timestamptz[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT webhook_older_secrets_check CHECK (cardinality(older_secrets) = cardinality(older_secrets_until));
COMMENT ON COLUMN webhook.old_secret_until IS 'Until then messages are signed with the old secret as well; null: there was no rotation.';
COMMENT ON COLUMN webhook.older_secrets IS 'The secrets before old_secret that still signed at the last rotation, newest first, sealed in the same way.';
COMMENT ON COLUMN webhook.older_secrets_until IS 'Until when each of older_secrets signs, in the same order.';

-- +goose Down
ALTER TABLE webhook DROP COLUMN older_secrets, DROP COLUMN older_secrets_until;
