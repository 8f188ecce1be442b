-- The events of each workspace as transparency logs (c2sp.org/tlog-tiles): one tree of what
-- every reader of events sees, and one of all events. Everything here follows from the log,
-- so that it can be made again from it with the same bytes.

-- +goose Up
CREATE TABLE event_tree (
    workspace_id text COLLATE "C" NOT NULL,
    sight        text COLLATE "C" NOT NULL CHECK (sight IN ('events', 'events-with-pay')),
    position     bigint           NOT NULL CHECK (position > 0),
    chain        bytea            NOT NULL CHECK (octet_length(chain) = 32),
    size         bigint           NOT NULL CHECK (size >= 0 AND size <= position),
    root         bytea            NOT NULL CHECK (octet_length(root) = 32),
    PRIMARY KEY (workspace_id, sight)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE event_tree IS 'The Merkle trees over the events of each workspace, as far as they are built. A workspace without a row has none yet.';
COMMENT ON COLUMN event_tree.sight IS 'Which events are its leaves: events is those that need no pay:read, events-with-pay is all.';
COMMENT ON COLUMN event_tree.position IS 'It has the events up to this position of the log.';
COMMENT ON COLUMN event_tree.chain IS 'The chain value of the entry at position.';
COMMENT ON COLUMN event_tree.size IS 'How many leaves it has.';
COMMENT ON COLUMN event_tree.root IS 'Its root (RFC 6962, 2.1).';

CREATE TABLE event_tile (
    workspace_id text COLLATE "C" NOT NULL,
    sight        text COLLATE "C" NOT NULL CHECK (sight IN ('events', 'events-with-pay')),
    level        smallint         NOT NULL CHECK (level BETWEEN 0 AND 7),
    tile         bigint           NOT NULL CHECK (tile >= 0),
    hashes       bytea            NOT NULL CHECK (octet_length(hashes) BETWEEN 32 AND 8192 AND octet_length(hashes) % 32 = 0),
    through      bigint           CHECK ((through IS NOT NULL) = (level = 0)),
    PRIMARY KEY (workspace_id, sight, level, tile)
);
ALTER TABLE event_tile ALTER COLUMN hashes SET STORAGE EXTERNAL; -- hashes cannot be compressed
CREATE INDEX event_tile_through ON event_tile (workspace_id, sight, through) WHERE level = 0;
COMMENT ON TABLE event_tile IS 'Tiles of the trees in event_tree: the full ones, which do not change, and at each level the one at the edge, which grows.';
COMMENT ON COLUMN event_tile.sight IS 'Of which tree it is: event_tree.sight.';
COMMENT ON COLUMN event_tile.level IS 'A hash is the root of the subtree of 256^level leaves; at level 0 it is that of a leaf.';
COMMENT ON COLUMN event_tile.tile IS 'Its number at its level: it begins with hash 256 * tile.';
COMMENT ON COLUMN event_tile.hashes IS '1 to 256 hashes of 32 bytes.';
COMMENT ON COLUMN event_tile.through IS 'At level 0, the position in the log of its last leaf; null at others.';

-- +goose Down
DROP TABLE event_tile;
DROP TABLE event_tree;
