-- Which segments of the log are being handled, so that an entry that ends the
-- process which handles it is found, and quarantined.

-- +goose Up
-- Unlogged: what was under way when the server crashed says nothing about the
-- entries, and a mark must cost less than the handling.
CREATE UNLOGGED TABLE log_under_way (
    workspace_id   text COLLATE "C" NOT NULL,
    consumer       text COLLATE "C" NOT NULL,
    position       bigint      NOT NULL,
    through        bigint      NOT NULL,
    process        text        NOT NULL,
    server_started timestamptz NOT NULL,
    under_way      boolean     NOT NULL,
    deaths         integer     NOT NULL,
    suspect_to     bigint      NOT NULL,
    PRIMARY KEY (workspace_id, consumer)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE log_under_way IS 'The segment of each workspace that a consumer began to handle last. While position is that of the checkpoint and no transaction holds that, a segment under way is one whose process ended.';
COMMENT ON COLUMN log_under_way.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_under_way.position IS 'The checkpoint before the segment.';
COMMENT ON COLUMN log_under_way.through IS 'Last position of the segment.';
COMMENT ON COLUMN log_under_way.process IS 'Who handles it: a name that no other process has.';
COMMENT ON COLUMN log_under_way.server_started IS 'When the database server had started then. Its end also ends what is under way, and that says nothing about the entries.';
COMMENT ON COLUMN log_under_way.under_way IS 'False when the handling failed or was stopped in an orderly way.';
COMMENT ON COLUMN log_under_way.deaths IS 'How many processes in a row ended while they handled a segment after this position.';
COMMENT ON COLUMN log_under_way.suspect_to IS 'Up to this position entries are handled one by one, because a process ended while it handled them.';

-- +goose Down
DROP TABLE log_under_way;
