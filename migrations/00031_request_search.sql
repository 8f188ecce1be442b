-- The request log can be searched. The indexes are apart from the columns, because no page
-- may wait for the table while they are made.

-- +goose Up
-- With the time, so that those of one id come in the order in which they are listed,
-- however many requests a caller gives the same id.
CREATE INDEX request_log_request ON request_log (workspace_id, request_id, at);
-- One object's requests, and unknown paths. Lists have no path.
CREATE INDEX request_log_path ON request_log (workspace_id, path, at) WHERE path IS NOT NULL;
-- Errors are searched most and are few.
CREATE INDEX request_log_error ON request_log (workspace_id, at, record_id) WHERE status >= 400;

-- +goose Down
DROP INDEX request_log_request, request_log_path, request_log_error;
