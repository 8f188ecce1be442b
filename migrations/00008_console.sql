-- The console: who is signed in, the links that sign people in, and what was
-- changed by whom.
--
-- A browser shows a token and nothing else, so sessions and links are found by
-- the token's SHA-256 alone. Those indexes are not unique: a unique index
-- without workspace_id could not be sharded, and the tokens hold 256 random
-- bits.

-- +goose Up
CREATE TABLE console_session (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    hash         bytea       NOT NULL CHECK (octet_length(hash) = 32),
    person       text        NOT NULL CHECK (person <> ''),
    role         text        NOT NULL CHECK (role IN ('viewer', 'admin')),
    grants       jsonb       NOT NULL,
    created_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, hash)
) WITH (fillfactor = 70);
CREATE INDEX console_session_by_hash ON console_session (hash);
CREATE INDEX console_session_expiry ON console_session (expires_at);

COMMENT ON TABLE console_session IS 'Who is signed in to the console. A row is deleted when its person signs out, and some time after it ended.';
COMMENT ON COLUMN console_session.workspace_id IS 'The workspace that the session looks at.';
COMMENT ON COLUMN console_session.hash IS 'SHA-256 of the token in the browser''s cookie, the only form in which it is kept.';
COMMENT ON COLUMN console_session.person IS 'Who it is, for people: a mail address or a name of the identity provider, or the name given to a sign-in link.';
COMMENT ON COLUMN console_session.role IS 'viewer (looks) or admin (changes), in this workspace.';
COMMENT ON COLUMN console_session.grants IS 'Array of {workspace, role}: the workspaces that the person may switch to.';
COMMENT ON COLUMN console_session.seen_at IS 'When it was last used, at most a minute behind; the idle limit counts from here.';
COMMENT ON COLUMN console_session.expires_at IS 'The absolute limit: it ends then, however much it is used.';

CREATE TABLE console_link (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    hash         bytea       NOT NULL CHECK (octet_length(hash) = 32),
    person       text        NOT NULL CHECK (person <> ''),
    role         text        NOT NULL CHECK (role IN ('viewer', 'admin')),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, hash)
);
CREATE INDEX console_link_by_hash ON console_link (hash);
CREATE INDEX console_link_expiry ON console_link (expires_at);

COMMENT ON TABLE console_link IS 'Sign-in links that were not used yet. Using one deletes it, so that it works once.';
COMMENT ON COLUMN console_link.hash IS 'SHA-256 of the token in the link, the only form in which it is kept.';
COMMENT ON COLUMN console_link.person IS 'The name that who signs in with it gets.';
COMMENT ON COLUMN console_link.role IS 'viewer or admin.';
COMMENT ON COLUMN console_link.expires_at IS 'It does not work from then on.';

CREATE TABLE console_audit (
    workspace_id text COLLATE "C" NOT NULL,
    at           timestamptz NOT NULL,
    audit_id     uuid        NOT NULL,
    person       text        NOT NULL,
    via          text        NOT NULL CHECK (via IN ('console', 'command')),
    action       text        NOT NULL,
    object_id    text        NOT NULL,
    object_name  text        NOT NULL,
    detail       text        NOT NULL,
    PRIMARY KEY (workspace_id, at, audit_id)
);

COMMENT ON TABLE console_audit IS 'Every change of keys and webhooks, and every sign-in: who, when, what. Refuses UPDATE, DELETE and TRUNCATE.';
COMMENT ON COLUMN console_audit.at IS 'When it was done.';
COMMENT ON COLUMN console_audit.audit_id IS 'Tells changes of one moment apart.';
COMMENT ON COLUMN console_audit.person IS 'Who did it, as in console_session.person; for commands the account and machine that ran them.';
COMMENT ON COLUMN console_audit.via IS 'console or command.';
COMMENT ON COLUMN console_audit.action IS 'What was done, such as key.create or webhook.rotate_secret.';
COMMENT ON COLUMN console_audit.object_id IS 'Id of the key, webhook or delivery; empty for sign-ins.';
COMMENT ON COLUMN console_audit.object_name IS 'The name or address it had then; it stays readable when the object is gone.';
COMMENT ON COLUMN console_audit.detail IS 'What it was changed to, in words; never a secret.';

-- +goose StatementBegin
CREATE FUNCTION console_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % on console_audit is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION console_audit_refuse() IS 'Keeps the audit append-only.';

CREATE TRIGGER console_audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON console_audit
    FOR EACH STATEMENT EXECUTE FUNCTION console_audit_refuse();

-- The request log can be narrowed to one key, also to one that made few of
-- many requests.
CREATE INDEX request_log_key ON request_log (workspace_id, key_id, at);

-- +goose Down
DROP INDEX request_log_key;
DROP TABLE console_audit;
DROP FUNCTION console_audit_refuse;
DROP TABLE console_link, console_session;
