-- Producers that append over HTTP (docs/operations/ingest-api.md). A key has a row for each of its
-- workspaces, so that it moves with a workspace to another database, and a shard knows all of its keys.

-- +goose Up
CREATE TABLE producer (
    workspace_id text COLLATE "C" NOT NULL,
    producer_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    types text[],
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT producer_pkey PRIMARY KEY (workspace_id, producer_id),
    CONSTRAINT producer_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT producer_name_given CHECK (name <> '')
);
COMMENT ON TABLE producer IS 'Keys of producers that append over HTTP: a row for each workspace of a key. A revoked key stays listed.';
COMMENT ON COLUMN producer.producer_id IS 'producer_ and a UUIDv7, the same in all workspaces of the key, and through rotations.';
COMMENT ON COLUMN producer.types IS 'The entry types that the key may append; null: all.';
COMMENT ON COLUMN producer.revoked_at IS 'When the key was revoked; null: it was not.';
CREATE INDEX producer_by_id ON producer (producer_id);

CREATE TABLE producer_secret (
    workspace_id text COLLATE "C" NOT NULL,
    producer_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone,
    CONSTRAINT producer_secret_pkey PRIMARY KEY (workspace_id, producer_id, hash),
    CONSTRAINT producer_secret_workspace_id_producer_id_fkey FOREIGN KEY (workspace_id, producer_id) REFERENCES producer(workspace_id, producer_id),
    CONSTRAINT producer_secret_hash_length CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE producer_secret IS 'Secrets of producers'' keys. A rotation without an overlap deletes the older ones.';
COMMENT ON COLUMN producer_secret.producer_id IS 'Key that the secret opens.';
COMMENT ON COLUMN producer_secret.hash IS 'SHA-256 of the full text of the key, the only form in which the secret is kept.';
COMMENT ON COLUMN producer_secret.prefix IS 'Public beginning of the key.';
COMMENT ON COLUMN producer_secret.ends_at IS 'From this time on the secret is refused, because a rotation replaced it; null: it is the key''s newest.';
CREATE INDEX producer_secret_by_hash ON producer_secret (hash);

-- +goose Down
DROP TABLE producer_secret, producer;
