-- A webhook can carry the headers of Standard Webhooks beside the service's own.

-- +goose Up
ALTER TABLE webhook ADD COLUMN standard_headers boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN webhook.standard_headers IS 'Its messages have webhook-id, webhook-timestamp and webhook-signature (standardwebhooks.com), too.';

-- +goose Down
ALTER TABLE webhook DROP COLUMN standard_headers;
