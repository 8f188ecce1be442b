-- The log of API requests, for the console: accepted requests one by one for 30
-- days, refused ones as counts.

-- +goose Up
-- A ring of 32 partitions, one for each day. The slot of a day is its number
-- since 1970 modulo 32: 31 days can be read, and the slot that comes next is
-- emptied before its day begins. So old requests leave without DELETE, and no
-- table is ever made or dropped while the service runs.
CREATE TABLE request_log (
    slot         smallint         NOT NULL,
    workspace_id text COLLATE "C" NOT NULL,
    at           timestamptz      NOT NULL,
    request_id   text COLLATE "C" NOT NULL,
    key_id       text COLLATE "C" NOT NULL,
    key_prefix   text COLLATE "C" NOT NULL,
    method       text COLLATE "C" NOT NULL,
    route        text COLLATE "C" NOT NULL,
    status       smallint         NOT NULL,
    duration_us  bigint           NOT NULL,
    bytes        bigint           NOT NULL,
    row_count    integer          NOT NULL,
    record_id    uuid             NOT NULL,
    PRIMARY KEY (workspace_id, at, record_id, slot)
) PARTITION BY LIST (slot);

COMMENT ON TABLE request_log IS 'Requests that passed the key and its rate limit, written in batches some moments after they were answered.';
COMMENT ON COLUMN request_log.slot IS 'Days since 1970 (UTC) modulo 32: the partition.';
COMMENT ON COLUMN request_log.at IS 'When the request came.';
COMMENT ON COLUMN request_log.request_id IS 'As in X-Request-Id: may be the caller''s own, and repeat.';
COMMENT ON COLUMN request_log.key_id IS 'The key that was used.';
COMMENT ON COLUMN request_log.key_prefix IS 'Public beginning of the key''s secret that was used.';
COMMENT ON COLUMN request_log.method IS 'GET, HEAD or OPTIONS.';
COMMENT ON COLUMN request_log.route IS 'Pattern of the path, such as /v1/invoices/{id}; empty for unknown paths. Never a query.';
COMMENT ON COLUMN request_log.duration_us IS 'Microseconds from the first check to the end of the answer.';
COMMENT ON COLUMN request_log.bytes IS 'Size of the body as it was sent.';
COMMENT ON COLUMN request_log.row_count IS 'Rows in the answer.';
COMMENT ON COLUMN request_log.record_id IS 'Made by the instance; tells records of one moment apart.';

-- +goose StatementBegin
DO $$
BEGIN
    FOR n IN 0..31 LOOP
        EXECUTE format('CREATE TABLE request_log_%s PARTITION OF request_log FOR VALUES IN (%s)', to_char(n, 'FM00'), n);
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE TABLE request_refused (
    workspace_id text COLLATE "C" NOT NULL,
    minute       timestamptz      NOT NULL,
    reason       text COLLATE "C" NOT NULL,
    key_id       text COLLATE "C" NOT NULL,
    refused      bigint           NOT NULL,
    PRIMARY KEY (workspace_id, minute, reason, key_id)
);

COMMENT ON TABLE request_refused IS 'How many requests were refused in each minute, by reason; kept as long as request_log.';
COMMENT ON COLUMN request_refused.workspace_id IS 'Workspace of the key; * where no key of a workspace was sent.';
COMMENT ON COLUMN request_refused.minute IS 'Begin of the clock minute.';
COMMENT ON COLUMN request_refused.reason IS 'method, headers, not_http, key_in_url, slow_down, rate_limit, or why a key was refused: missing, malformed, unknown, revoked, rotated, expired.';
COMMENT ON COLUMN request_refused.key_id IS 'The key that was sent, where there is one; else empty.';
COMMENT ON COLUMN request_refused.refused IS 'Requests refused, all instances together.';

-- +goose Down
DROP TABLE request_refused;
DROP TABLE request_log;
