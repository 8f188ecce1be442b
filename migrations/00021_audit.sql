-- The audit trail tells people apart by the id that their identity provider gives
-- them, since many let them choose their names; it has changes that the service
-- makes by itself, and those of its settings.

-- +goose Up
ALTER TABLE console_session
    ADD COLUMN issuer  text NOT NULL DEFAULT '',
    ADD COLUMN subject text NOT NULL DEFAULT '';
COMMENT ON COLUMN console_session.issuer IS 'Address of the identity provider that signed the person in; empty for a sign-in link.';
COMMENT ON COLUMN console_session.subject IS 'The identity provider''s id of the person, which never changes; for a sign-in link, the id of the link.';

ALTER TABLE console_audit
    ADD COLUMN issuer  text NOT NULL DEFAULT '',
    ADD COLUMN subject text NOT NULL DEFAULT '',
    DROP CONSTRAINT console_audit_via_check,
    ADD CONSTRAINT console_audit_via_check CHECK (via IN ('console', 'command', 'service'));
COMMENT ON TABLE console_audit IS 'Every change of workspaces, keys, webhooks, read models and settings, and every sign-in: who, when, what. Written in the transaction of the change. UPDATE, DELETE and TRUNCATE are refused.';
COMMENT ON COLUMN console_audit.issuer IS 'As in console_session; empty for commands and the service.';
COMMENT ON COLUMN console_audit.subject IS 'As in console_session; empty for commands and the service.';
COMMENT ON COLUMN console_audit.person IS 'The name of who did it, as in console_session.person; for commands and the service the account and machine that ran them.';
COMMENT ON COLUMN console_audit.via IS 'console, command, or service (a serving process by itself).';
COMMENT ON COLUMN console_audit.object_id IS 'Id of the key, webhook, delivery or entry; empty where the action has none.';

CREATE TABLE service_setting (
    workspace_id text COLLATE "C" NOT NULL CHECK (workspace_id = '*'),
    name         text COLLATE "C" NOT NULL,
    value        text        NOT NULL,
    changed_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, name)
);
COMMENT ON TABLE service_setting IS 'Settings with which serving processes were last started, where a change decides what is kept; a change is in the audit.';
COMMENT ON COLUMN service_setting.name IS 'Which: retention.';
COMMENT ON COLUMN service_setting.value IS 'The value, as Go writes it; retention: a duration such as 720h0m0s.';
COMMENT ON COLUMN service_setting.changed_at IS 'When it got this value.';

-- +goose Down
DROP TABLE service_setting;
-- The program before knows two words only.
ALTER TABLE console_audit DISABLE TRIGGER console_audit_append_only;
UPDATE console_audit SET via = 'command' WHERE via = 'service';
ALTER TABLE console_audit ENABLE TRIGGER console_audit_append_only;
ALTER TABLE console_audit
    DROP COLUMN issuer,
    DROP COLUMN subject,
    DROP CONSTRAINT console_audit_via_check,
    ADD CONSTRAINT console_audit_via_check CHECK (via IN ('console', 'command'));
ALTER TABLE console_session DROP COLUMN issuer, DROP COLUMN subject;
COMMENT ON TABLE console_audit IS 'Every change of keys and webhooks, and every sign-in: who, when, what. UPDATE, DELETE and TRUNCATE are refused.';
COMMENT ON COLUMN console_audit.person IS 'Who did it, as in console_session.person; for commands, the account and the machine that ran them.';
COMMENT ON COLUMN console_audit.via IS 'console or command: where the change was made.';
COMMENT ON COLUMN console_audit.object_id IS 'Id of the key, webhook or delivery; empty for sign-ins.';
