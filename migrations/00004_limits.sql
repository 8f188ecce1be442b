-- Counts of requests, exchanged between the instances of the service.

-- +goose Up
-- Unlogged: after a crash of the server a minute's counts begin anew, which
-- costs less than writing them to disk all the time.
CREATE UNLOGGED TABLE rate_count (
    workspace_id text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    minute       bigint           NOT NULL,
    taken        bigint           NOT NULL,
    changed_at   timestamptz      NOT NULL,
    PRIMARY KEY (workspace_id, subject)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

COMMENT ON TABLE rate_count IS 'How many requests each key made, and how many refused keys each address sent, in the clock minute that runs. Every instance adds to it and reads it a few times a second.';
COMMENT ON COLUMN rate_count.workspace_id IS 'Workspace of the key; * for addresses.';
COMMENT ON COLUMN rate_count.subject IS 'Key id, or address (of IPv6 the network of 64 bits).';
COMMENT ON COLUMN rate_count.minute IS 'The clock minute that is counted: minutes since 1970.';
COMMENT ON COLUMN rate_count.taken IS 'The count of all instances together.';
COMMENT ON COLUMN rate_count.changed_at IS 'By the database''s clock; instances read what changed since they last did.';

-- +goose Down
DROP TABLE rate_count;
