-- When each API key was last used. A table of its own: api_key changes rarely
-- and every change of it is told to all instances, which a use must not be.

-- +goose Up
CREATE TABLE api_key_use (
    workspace_id text COLLATE "C" NOT NULL,
    key_id       text COLLATE "C" NOT NULL,
    last_used_at timestamptz      NOT NULL,
    PRIMARY KEY (workspace_id, key_id),
    FOREIGN KEY (workspace_id, key_id) REFERENCES api_key (workspace_id, key_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE api_key_use IS 'Uses of API keys.';
COMMENT ON COLUMN api_key_use.key_id IS 'The key.';
COMMENT ON COLUMN api_key_use.last_used_at IS 'When a request last passed with the key; written once a minute at most.';

-- +goose Down
DROP TABLE api_key_use;
