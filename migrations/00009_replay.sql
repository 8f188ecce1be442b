-- What replay needs to know: by which rules a workspace's rows were made, what
-- has failed and was skipped, and when the rows were last compared with the log.

-- +goose Up
ALTER TABLE log_checkpoint ADD COLUMN rules integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN log_checkpoint.rules IS 'The oldest version of the rules by which any of the consumer''s rows in this workspace may have been made; 0 when that is not known. A rebuild brings it up to the program''s.';
COMMENT ON COLUMN log_checkpoint.moved_at IS 'When rows last changed: the position moved, or a rebuild repaired rows. Position and moved_at together are a version of everything that the workspace shows.';

CREATE TABLE log_failure (
    workspace_id     text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    consumer         text COLLATE "C" NOT NULL,
    from_position    bigint      NOT NULL,
    through_position bigint      NOT NULL,
    error_digest     text COLLATE "C" NOT NULL,
    error            text        NOT NULL,
    times            bigint      NOT NULL,
    first_at         timestamptz NOT NULL,
    last_at          timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, consumer, from_position, through_position, error_digest)
);
COMMENT ON TABLE log_failure IS 'The history of segments that a consumer could not handle: one row for each segment and error, however often it happened.';
COMMENT ON COLUMN log_failure.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_failure.from_position IS 'First position of the segment.';
COMMENT ON COLUMN log_failure.through_position IS 'Last position of the segment.';
COMMENT ON COLUMN log_failure.error IS 'What the consumer said.';
COMMENT ON COLUMN log_failure.times IS 'How often it happened.';
COMMENT ON COLUMN log_failure.first_at IS 'When it first happened.';
COMMENT ON COLUMN log_failure.last_at IS 'When it last happened.';
COMMENT ON COLUMN log_failure.error_digest IS 'MD5 of error, which may be longer than a key.';

CREATE TABLE log_skip (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspace (workspace_id),
    consumer     text COLLATE "C" NOT NULL,
    position     bigint      NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    error        text        NOT NULL,
    reason       text        NOT NULL,
    skipped_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, consumer, position),
    CONSTRAINT log_skip_reason_given CHECK (reason <> '')
);
COMMENT ON TABLE log_skip IS 'Entries that an operator made a consumer pass over, without any effect, also in a rebuild.';
COMMENT ON COLUMN log_skip.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_skip.skipped_at IS 'When it was passed over.';
COMMENT ON COLUMN log_skip.error IS 'Why the consumer could not handle the entry.';
COMMENT ON COLUMN log_skip.reason IS 'What the operator gave as the reason for passing over it.';

CREATE TABLE replay_audit (
    workspace_id  text COLLATE "C" PRIMARY KEY REFERENCES workspace (workspace_id),
    audited_at    timestamptz,
    position      bigint,
    differences   bigint,
    error         text,
    claimed_until timestamptz
);
COMMENT ON TABLE replay_audit IS 'When each workspace''s rows were last compared with a fold of its log in the background, and what came out.';
COMMENT ON COLUMN replay_audit.audited_at IS 'When the last audit ended; null before the first.';
COMMENT ON COLUMN replay_audit.position IS 'The checkpoint that the rows were compared at.';
COMMENT ON COLUMN replay_audit.differences IS 'How many differences the last audit found; null when it could not be finished.';
COMMENT ON COLUMN replay_audit.error IS 'Why the last audit could not be finished.';
COMMENT ON COLUMN replay_audit.claimed_until IS 'Until then an instance is at it; it prolongs the time as it goes.';

-- +goose Down
DROP TABLE replay_audit, log_skip, log_failure;
ALTER TABLE log_checkpoint DROP COLUMN rules;
COMMENT ON COLUMN log_checkpoint.moved_at IS 'When position last moved; null before it did.';
