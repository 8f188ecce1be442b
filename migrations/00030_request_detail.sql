-- The request log explains errors: what the answer said, the path
-- with its ids, who called. Rows from before, and those of the version before, have
-- none of it.

-- +goose Up
ALTER TABLE request_log
    ADD COLUMN path       text COLLATE "C",
    ADD COLUMN address    inet,
    ADD COLUMN user_agent text COLLATE "C",
    ADD COLUMN problem    jsonb;

COMMENT ON COLUMN request_log.route IS 'Pattern of the path, such as /v1/invoices/{id}; empty for unknown paths.';
COMMENT ON COLUMN request_log.path IS 'The path as it was sent, percent-encoded, at most 256 bytes (a longer one ends with …); NULL where it is the route. Never a query, never anything in the form of a key.';
COMMENT ON COLUMN request_log.address IS 'Address of the caller, behind trusted proxies the one that they name.';
COMMENT ON COLUMN request_log.user_agent IS 'The header User-Agent, at most 200 bytes; NULL where there is none. Never anything in the form of a key.';
COMMENT ON COLUMN request_log.problem IS 'What an error said: title, detail, errors (field, message) and permission, as far as it has them; NULL for other answers. Never a value of a parameter.';

-- +goose Down
ALTER TABLE request_log DROP COLUMN path, DROP COLUMN address, DROP COLUMN user_agent, DROP COLUMN problem;
COMMENT ON COLUMN request_log.route IS 'Pattern of the path, such as /v1/invoices/{id}; empty for unknown paths. Never a query.';
