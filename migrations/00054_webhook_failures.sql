-- A webhook is turned off when attempts for two different events have failed and none has
-- succeeded for three days, or when its receiver says that it is gone. What these rules remember
-- takes the place of failure_marks.

-- +goose Up
ALTER TABLE webhook
    ADD COLUMN failures jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN turned_off_reason text COLLATE "C",
    ADD CONSTRAINT webhook_turned_off_reason_check CHECK (turned_off_reason IN ('failing', 'gone'));
COMMENT ON COLUMN webhook.failures IS 'What the rules for turning it off remember of the attempts since failing_since; see delivery/policy.';
COMMENT ON COLUMN webhook.failure_marks IS 'Of the version before, which turns a webhook off by another rule: Unix milliseconds of failed attempts.';
COMMENT ON COLUMN webhook.warned IS 'Warnings that were due since failing_since.';
COMMENT ON COLUMN webhook.turned_off_at IS 'When it was turned off because attempts failed; null while on.';
COMMENT ON COLUMN webhook.turned_off_reason IS 'failing: no attempt had succeeded for long. gone: the receiver answered 410. Null while on, and for one that the version before has turned off because it was failing.';

-- +goose Down
COMMENT ON COLUMN webhook.failure_marks IS 'Unix milliseconds of failed attempts: the first and last of each span, enough to tell whether one fell into each third of the time after which it is turned off.';
COMMENT ON COLUMN webhook.warned IS 'Warnings sent since failing_since: 0, 1 or 2.';
COMMENT ON COLUMN webhook.turned_off_at IS 'When it was turned off because every attempt failed; null while on.';
ALTER TABLE webhook DROP COLUMN failures, DROP COLUMN turned_off_reason;
