-- API keys and what tells every instance that one of them changed.
--
-- A key and its secrets are two tables because a rotation leaves the key (its id, permissions, name, counters) as it is
-- and gives it another secret, beside which the old one may live on for up to 24 hours.

-- +goose Up
CREATE TABLE api_key (
    workspace_id          text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    key_id                text COLLATE "C" NOT NULL,
    name                  text             NOT NULL,
    permissions           text[]           NOT NULL,
    rate_limit_per_minute integer          NOT NULL DEFAULT 120,
    created_at            timestamptz      NOT NULL,
    expires_at            timestamptz,
    revoked_at            timestamptz,
    revision              bigint           NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, key_id),
    CONSTRAINT api_key_name_given CHECK (name <> ''),
    CONSTRAINT api_key_rate_limit_positive CHECK (rate_limit_per_minute > 0),
    CONSTRAINT api_key_margin_needs_pay CHECK (permissions @> '{pay:read}' OR NOT permissions @> '{margin:read}')
);

-- The list of allowed permissions is not repeated as a constraint: a program that knows one more must be able to run
-- beside one that does not, on this schema.

-- "Which keys changed after revision N?" is asked by every instance after each change. Keys that never changed stay out
-- of the index.
CREATE INDEX api_key_changed ON api_key (revision) WHERE revision > 0;

-- The command line names a key by its id alone. Not unique: a unique index without workspace_id could not be sharded,
-- and the ids are UUIDs.
CREATE INDEX api_key_by_id ON api_key (key_id);

COMMENT ON TABLE api_key IS 'API keys of the workspaces. Rows are never deleted: a revoked key stays listed.';
COMMENT ON COLUMN api_key.workspace_id IS 'The one workspace that the key reads.';
COMMENT ON COLUMN api_key.key_id IS 'key_ and a UUIDv7; stays the same through rotations, and the rate-limit counter goes by it.';
COMMENT ON COLUMN api_key.name IS 'Name given by the user, 1 to 100 characters, not unique.';
COMMENT ON COLUMN api_key.permissions IS 'Permissions (scopes) such as invoices:read, fixed for the life of the key. A program ignores those that it does not know.';
COMMENT ON COLUMN api_key.rate_limit_per_minute IS 'Requests allowed in a clock minute.';
COMMENT ON COLUMN api_key.created_at IS 'When the key was made.';
COMMENT ON COLUMN api_key.expires_at IS 'From this time on the key is refused; null: it does not expire.';
COMMENT ON COLUMN api_key.revoked_at IS 'When the key was revoked; null: it was not. A key with a value here is refused whatever the clock says.';
COMMENT ON COLUMN api_key.revision IS 'Value of access_revision at the last change of the key, its secrets or its workspace''s name; 0: none since it was made.';

CREATE TABLE api_key_secret (
    workspace_id text COLLATE "C" NOT NULL,
    key_id       text COLLATE "C" NOT NULL,
    hash         bytea            NOT NULL,
    prefix       text COLLATE "C" NOT NULL,
    created_at   timestamptz      NOT NULL,
    ends_at      timestamptz,
    ended        boolean          NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, key_id, hash),
    FOREIGN KEY (workspace_id, key_id) REFERENCES api_key (workspace_id, key_id),
    CONSTRAINT api_key_secret_hash_length CHECK (octet_length(hash) = 32),
    CONSTRAINT api_key_secret_end_known CHECK (ends_at IS NOT NULL OR NOT ended)
);

-- A request names only the secret. Not unique for the same reason as above; the secrets hold 190 random bits.
CREATE INDEX api_key_secret_by_hash ON api_key_secret (hash);

COMMENT ON TABLE api_key_secret IS 'Secrets of the keys. Rows are never deleted: the instances find by them what to forget.';
COMMENT ON COLUMN api_key_secret.workspace_id IS 'Workspace of the key.';
COMMENT ON COLUMN api_key_secret.key_id IS 'Key that the secret opens.';
COMMENT ON COLUMN api_key_secret.hash IS 'SHA-256 of the full text of the key, the only form in which the secret is kept.';
COMMENT ON COLUMN api_key_secret.prefix IS 'Public beginning of the key: brand, underscore, 8 characters.';
COMMENT ON COLUMN api_key_secret.created_at IS 'When the secret was made: with the key, or by a rotation.';
COMMENT ON COLUMN api_key_secret.ends_at IS 'From this time on the secret is refused, because a rotation replaced it; null: it is the key''s newest.';
COMMENT ON COLUMN api_key_secret.ended IS 'True: refused at once, whatever the clocks of the instances say, because a rotation replaced it without an overlap.';

-- One row for all workspaces: every change of a key takes the next revision and keeps the row locked until it commits,
-- so revisions become visible in order and "what is newer than N?" can never miss one that commits late. The row's
-- workspace_id is no workspace's, so that the table shards like the others.
CREATE TABLE access_revision (
    workspace_id text COLLATE "C" PRIMARY KEY,
    revision     bigint NOT NULL,
    CONSTRAINT access_revision_one_row CHECK (workspace_id = '*')
);

INSERT INTO access_revision (workspace_id, revision) VALUES ('*', 0);

COMMENT ON TABLE access_revision IS 'Counter of changes of keys, one row; every instance polls it several times a second.';
COMMENT ON COLUMN access_revision.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN access_revision.revision IS 'Changes so far.';

-- +goose Down
DROP TABLE access_revision;
DROP TABLE api_key_secret;
DROP TABLE api_key;
