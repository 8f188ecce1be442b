-- Which anomalies a person has looked at. It is beside the anomalies because those
-- are a fold of the log, which a rebuild makes again.

-- +goose Up
CREATE TABLE anomaly_acknowledged (
    workspace_id    text COLLATE "C" NOT NULL,
    position        bigint      NOT NULL,
    reason          text COLLATE "C" NOT NULL,
    acknowledged_at timestamptz NOT NULL,
    note            text        NOT NULL,
    PRIMARY KEY (workspace_id, position, reason)
);
COMMENT ON TABLE anomaly_acknowledged IS 'Anomalies that a person has looked at; who it was stands in console_audit.';
COMMENT ON COLUMN anomaly_acknowledged.acknowledged_at IS 'When that was.';
COMMENT ON COLUMN anomaly_acknowledged.note IS 'What came of it, in words.';

-- +goose Down
DROP TABLE anomaly_acknowledged;
