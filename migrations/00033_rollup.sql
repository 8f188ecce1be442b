-- Counts by interval, from which the console draws its charts, so that no page counts
-- rows. They are written beside what they count, some seconds later and in transactions
-- of their own: a row that somebody has locked delays the charts and nothing else.
-- Charts begin with this version; what was counted before is not made again.

-- +goose Up
CREATE TABLE request_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step         smallint         NOT NULL CHECK (step IN (1, 60)),
    at           timestamptz      NOT NULL,
    route_class  text COLLATE "C" NOT NULL,
    status_class smallint         NOT NULL,
    requests     bigint           NOT NULL,
    latency      integer[]        NOT NULL,
    PRIMARY KEY (workspace_id, step, at, route_class, status_class)
) WITH (fillfactor = 80);
CREATE INDEX request_rollup_age ON request_rollup (step, at);
COMMENT ON TABLE request_rollup IS 'Requests of the API by minute, kept for some hours, and by hour, kept for 31 days.';
COMMENT ON COLUMN request_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN request_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN request_rollup.route_class IS 'list, object, events or other.';
COMMENT ON COLUMN request_rollup.status_class IS 'First digit of the status; 0: refused before it was looked at more closely.';
COMMENT ON COLUMN request_rollup.requests IS 'Number of requests.';
COMMENT ON COLUMN request_rollup.latency IS 'How many took how long, by the bounds in internal/rollup; empty for refused ones.';

CREATE TABLE key_rollup (
    workspace_id  text COLLATE "C" NOT NULL,
    step          smallint         NOT NULL CHECK (step IN (1, 60)),
    at            timestamptz      NOT NULL,
    key_id        text COLLATE "C" NOT NULL,
    requests      bigint           NOT NULL,
    client_errors bigint           NOT NULL,
    server_errors bigint           NOT NULL,
    rate_limited  bigint           NOT NULL,
    peak          bigint           NOT NULL,
    PRIMARY KEY (workspace_id, step, at, key_id)
) WITH (fillfactor = 80);
CREATE INDEX key_rollup_age ON key_rollup (step, at);
COMMENT ON TABLE key_rollup IS 'Requests of each key, in the intervals of request_rollup.';
COMMENT ON COLUMN key_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN key_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN key_rollup.key_id IS 'The key that was used.';
COMMENT ON COLUMN key_rollup.requests IS 'Requests within the key''s limit.';
COMMENT ON COLUMN key_rollup.client_errors IS 'Those that were answered with a status of 400 to 499.';
COMMENT ON COLUMN key_rollup.server_errors IS 'Those that were answered with a status of 500 or above.';
COMMENT ON COLUMN key_rollup.rate_limited IS 'Requests that were refused because they were over the key''s limit.';
COMMENT ON COLUMN key_rollup.peak IS 'The most requests within the limit in one minute of the interval.';

CREATE TABLE attempt_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step         smallint         NOT NULL CHECK (step IN (1, 60)),
    at           timestamptz      NOT NULL,
    webhook_id   text COLLATE "C" NOT NULL,
    outcome      text COLLATE "C" NOT NULL,
    attempts     bigint           NOT NULL,
    latency      integer[]        NOT NULL,
    PRIMARY KEY (workspace_id, step, at, webhook_id, outcome)
) WITH (fillfactor = 80);
CREATE INDEX attempt_rollup_age ON attempt_rollup (step, at);
COMMENT ON TABLE attempt_rollup IS 'Attempts to deliver, in the intervals of request_rollup. What webhook_hour counts is exact, this is for charts.';
COMMENT ON COLUMN attempt_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN attempt_rollup.at IS 'Start of the interval, in which the attempt began.';
COMMENT ON COLUMN attempt_rollup.outcome IS 'Outcome of the attempts: success, or the cause of the failure.';
COMMENT ON COLUMN attempt_rollup.attempts IS 'Number of attempts.';
COMMENT ON COLUMN attempt_rollup.latency IS 'How many took how long, by the bounds in internal/rollup.';

CREATE TABLE event_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step         smallint         NOT NULL CHECK (step IN (1, 60)),
    at           timestamptz      NOT NULL,
    events       bigint           NOT NULL,
    PRIMARY KEY (workspace_id, step, at)
) WITH (fillfactor = 80);
CREATE INDEX event_rollup_age ON event_rollup (step, at);
COMMENT ON TABLE event_rollup IS 'Events by their publish time, in the intervals of request_rollup.';
COMMENT ON COLUMN event_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN event_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN event_rollup.events IS 'Number of public entries that the read models show.';

CREATE TABLE event_rollup_cursor (
    workspace_id text COLLATE "C" PRIMARY KEY,
    position     bigint           NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE event_rollup_cursor IS 'How far event_rollup has counted each workspace''s log.';

-- +goose Down
DROP TABLE event_rollup_cursor, event_rollup, attempt_rollup, key_rollup, request_rollup;
