-- What people call a webhook, and what it is for. Several webhooks can have the same
-- host, and their paths are seldom words.

-- +goose Up
ALTER TABLE webhook
    ADD COLUMN name text NOT NULL DEFAULT '' CHECK (char_length(name) <= 100),
    ADD COLUMN description text NOT NULL DEFAULT '' CHECK (char_length(description) <= 500);
COMMENT ON COLUMN webhook.description IS 'What it is for, in the words of its owner; empty: nothing was said.';

-- +goose Down
ALTER TABLE webhook DROP COLUMN name, DROP COLUMN description;
