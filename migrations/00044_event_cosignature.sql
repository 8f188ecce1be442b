-- Cosignatures of witnesses (c2sp.org/tlog-witness) of the trees' checkpoints, each witness's
-- newest of each tree. They are no part of the log and do not follow from it.

-- +goose Up
CREATE TABLE event_cosignature (
    workspace_id text COLLATE "C" NOT NULL,
    sight        text COLLATE "C" NOT NULL CHECK (sight IN ('events', 'events-with-pay')),
    witness      text COLLATE "C" NOT NULL CHECK (octet_length(witness) BETWEEN 1 AND 300),
    origin       text COLLATE "C" NOT NULL,
    position     bigint           NOT NULL CHECK (position > 0),
    chain        bytea            NOT NULL CHECK (octet_length(chain) = 32),
    size         bigint           NOT NULL CHECK (size >= 0 AND size <= position),
    root         bytea            NOT NULL CHECK (octet_length(root) = 32),
    line         text             NOT NULL CHECK (octet_length(line) BETWEEN 1 AND 1000),
    PRIMARY KEY (workspace_id, sight, witness)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE event_cosignature IS 'The newest cosignature of each witness of each tree. It is served with the checkpoint that it is of, and with no other.';
COMMENT ON COLUMN event_cosignature.sight IS 'Of which tree it is: event_tree.sight.';
COMMENT ON COLUMN event_cosignature.witness IS 'The name of the witness''s key, a plus and the hash of the key, in hex.';
COMMENT ON COLUMN event_cosignature.origin IS 'The first line of the checkpoint that was cosigned.';
COMMENT ON COLUMN event_cosignature.position IS 'event_tree.position of that checkpoint.';
COMMENT ON COLUMN event_cosignature.chain IS 'event_tree.chain of that checkpoint.';
COMMENT ON COLUMN event_cosignature.size IS 'event_tree.size of that checkpoint: the next proof for this witness begins here.';
COMMENT ON COLUMN event_cosignature.root IS 'event_tree.root of that checkpoint.';
COMMENT ON COLUMN event_cosignature.line IS 'The line of the signed note with the cosignature, with its line feed.';

-- +goose Down
DROP TABLE event_cosignature;
