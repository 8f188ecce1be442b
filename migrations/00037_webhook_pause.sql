-- A person can pause a webhook: nothing is sent, nothing is lost, and resuming goes on
-- where it stood.
--
-- Processes of the version before, which serve beside, send to webhooks that are 'on'.
-- To them a webhook that is 'paused' is one that is off: they give it back, because its
-- epoch rises as if it had been turned off, and do not claim it. They call webhook_cancel
-- for what is pending under an older epoch, which from now on leaves alone what a pause
-- keeps.

-- +goose Up
ALTER TABLE webhook
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN pause_epoch integer,
    ADD COLUMN kept_epoch integer,
    DROP CONSTRAINT webhook_state_check,
    ADD CONSTRAINT webhook_state_check CHECK (state IN ('on', 'off', 'paused'));
-- Of what is pending for a paused webhook, which may be much, only what a person sends has
-- the present epoch.
CREATE INDEX webhook_waiting_epoch ON webhook_waiting (workspace_id, webhook_id, epoch);
COMMENT ON COLUMN webhook.state IS 'on, off or paused.';
COMMENT ON COLUMN webhook.epoch IS 'Raised when it is turned off, on, or paused. What was decided or is pending under an epoch from before it was last turned off or on is cancelled.';
COMMENT ON COLUMN webhook.paused_at IS 'When it was paused; null while it is not.';
COMMENT ON COLUMN webhook.pause_epoch IS 'The epoch that it got when it was last paused; null: never.';
COMMENT ON COLUMN webhook.kept_epoch IS 'As long as its epoch is pause_epoch: what is pending under this epoch or a later one is not cancelled.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when the attempt failed. A delivery from before the webhook was last turned off or on is to be cancelled.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_cancel(w text, h text, n integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    done integer;
BEGIN
    WITH void AS (
        SELECT q.position, q.created_at FROM webhook_waiting q
          JOIN webhook k ON k.workspace_id = q.workspace_id AND k.webhook_id = q.webhook_id
         WHERE q.workspace_id = w AND q.webhook_id = h
           AND q.epoch < CASE WHEN k.epoch = k.pause_epoch THEN k.kept_epoch ELSE k.epoch END LIMIT n
    ), gone AS (
        DELETE FROM webhook_waiting q USING void v
         WHERE q.workspace_id = w AND q.webhook_id = h AND q.position = v.position
        RETURNING q.position, q.created_at
    ), shown AS (
        UPDATE webhook_delivery d SET state = 'cancelled', next_attempt_at = NULL FROM gone g
         WHERE d.workspace_id = w AND d.webhook_id = h AND d.position = g.position AND d.created_at = g.created_at
           AND d.state = 'pending'
    )
    SELECT count(*) INTO done FROM gone;
    RETURN done;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_cancel IS 'Cancels up to n deliveries that are pending from before the webhook was last turned off or on; returns how many.';

-- +goose Down
-- What was paused is sent on, as it would be after resuming.
UPDATE webhook_waiting q SET epoch = w.epoch FROM webhook w
 WHERE w.workspace_id = q.workspace_id AND w.webhook_id = q.webhook_id AND w.epoch = w.pause_epoch AND q.epoch >= w.kept_epoch;
UPDATE webhook SET state = 'on', version = version + 1 WHERE state = 'paused';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_cancel(w text, h text, n integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    done integer;
BEGIN
    WITH void AS (
        SELECT q.position, q.created_at FROM webhook_waiting q
          JOIN webhook k ON k.workspace_id = q.workspace_id AND k.webhook_id = q.webhook_id
         WHERE q.workspace_id = w AND q.webhook_id = h AND q.epoch < k.epoch LIMIT n
    ), gone AS (
        DELETE FROM webhook_waiting q USING void v
         WHERE q.workspace_id = w AND q.webhook_id = h AND q.position = v.position
        RETURNING q.position, q.created_at
    ), shown AS (
        UPDATE webhook_delivery d SET state = 'cancelled', next_attempt_at = NULL FROM gone g
         WHERE d.workspace_id = w AND d.webhook_id = h AND d.position = g.position AND d.created_at = g.created_at
           AND d.state = 'pending'
    )
    SELECT count(*) INTO done FROM gone;
    RETURN done;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION webhook_cancel IS 'Cancels up to n deliveries that are pending under an older epoch of the webhook; returns how many.';
COMMENT ON COLUMN webhook.epoch IS 'Raised when it is turned off or on. What was decided or is pending under an older epoch is cancelled.';
COMMENT ON COLUMN webhook.state IS 'on or off.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when the attempt failed. A delivery of an older epoch is to be cancelled.';
DROP INDEX webhook_waiting_epoch;
ALTER TABLE webhook
    DROP CONSTRAINT webhook_state_check,
    ADD CONSTRAINT webhook_state_check CHECK (state IN ('on', 'off')),
    DROP COLUMN paused_at, DROP COLUMN pause_epoch, DROP COLUMN kept_epoch;
