-- Where a stream of a message broker is read on. The broker itself could keep that, but
-- gives messages out of order after a process has died with some of them.

-- +goose Up
CREATE TABLE ingest_position (
    workspace_id   text COLLATE "C" NOT NULL CHECK (workspace_id = '*'),
    source         text COLLATE "C" NOT NULL,
    sequence       bigint           NOT NULL CHECK (sequence >= 0),
    stream_created timestamptz,
    moved_at       timestamptz,
    holder         text,
    held_until     timestamptz,
    PRIMARY KEY (workspace_id, source)
);
COMMENT ON TABLE ingest_position IS 'How far streams of message brokers are ingested. Whatever is after the sequence is read again; entries that the log has are skipped by their ids.';
COMMENT ON COLUMN ingest_position.source IS 'LEDGERFEED_INGEST_NAME.';
COMMENT ON COLUMN ingest_position.sequence IS 'The stream''s sequence of the last message that is in the log or among the dead letters; 0: none.';
COMMENT ON COLUMN ingest_position.stream_created IS 'When the stream was made: another one begins again at sequence 1.';
COMMENT ON COLUMN ingest_position.moved_at IS 'When sequence last moved; null: never.';
COMMENT ON COLUMN ingest_position.holder IS 'The process that reads the stream; the others wait.';
COMMENT ON COLUMN ingest_position.held_until IS 'When another process may take over.';

-- +goose Down
DROP TABLE ingest_position;
