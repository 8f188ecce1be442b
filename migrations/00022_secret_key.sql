-- The database knows by their fingerprints the keys that webhooks' secrets are sealed
-- under. The keys themselves are never in it. A process with other keys is refused
-- before it seals anything that the others could not open.

-- +goose Up
CREATE TABLE secret_key (
    workspace_id text COLLATE "C" NOT NULL CHECK (workspace_id = '*'),
    fingerprint  bytea       NOT NULL CHECK (octet_length(fingerprint) = 8),
    state        text        NOT NULL CHECK (state IN ('sealing', 'former', 'lost')),
    since        timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, fingerprint)
);
CREATE UNIQUE INDEX secret_key_sealing ON secret_key (workspace_id) WHERE state = 'sealing';
COMMENT ON TABLE secret_key IS 'Fingerprints of the keys of webhooks'' secrets, which are outside of the database.';
COMMENT ON COLUMN secret_key.fingerprint IS 'The first 8 bytes of every secret sealed under the key.';
COMMENT ON COLUMN secret_key.state IS 'sealing: every process seals under this one; former: replaced by a rotation; lost: given up, and what is sealed under it cannot be opened any more.';
COMMENT ON COLUMN secret_key.since IS 'When it got into this state.';

ALTER TABLE webhook_instance ADD COLUMN secret_keys bytea[];
COMMENT ON COLUMN webhook_instance.secret_keys IS 'Fingerprints of the keys that the process has; null: a program before version 22 of the schema.';

-- +goose Down
ALTER TABLE webhook_instance DROP COLUMN secret_keys;
DROP TABLE secret_key;
