-- Keys of the service itself, made by whichever instance is first.

-- +goose Up
CREATE TABLE service_key (
    workspace_id text COLLATE "C" NOT NULL CHECK (workspace_id = '*'),
    name         text COLLATE "C" NOT NULL,
    value        bytea NOT NULL CHECK (octet_length(value) = 32),
    PRIMARY KEY (workspace_id, name)
);
COMMENT ON TABLE service_key IS 'Random keys that all instances of the service share. None opens customers'' secrets: those have a key outside of the database.';
COMMENT ON COLUMN service_key.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN service_key.name IS 'What it is for: cursor (seals cursors and ETags of the API).';
COMMENT ON COLUMN service_key.value IS '32 random bytes.';

-- +goose Down
DROP TABLE service_key;
