-- Cancelling finds each pending delivery by its key, whatever statistics say of the webhook.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_cancel(w text, h text, n integer) RETURNS integer LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    done  integer;
    since integer;
BEGIN
    SELECT CASE WHEN k.epoch = k.pause_epoch THEN k.kept_epoch ELSE k.epoch END INTO since FROM webhook k
     WHERE k.workspace_id = w AND k.webhook_id = h;
    -- Without sorts, a range of one webhook in the order of epochs is read along their index. A
    -- DELETE has no order, so it takes the rows by their places, which the locks keep.
    WITH gone AS (
        DELETE FROM webhook_waiting WHERE ctid = ANY (ARRAY(
               SELECT q.ctid FROM webhook_waiting q
                WHERE q.workspace_id = w AND q.webhook_id BETWEEN h AND h AND q.epoch < since
                ORDER BY q.webhook_id, q.epoch LIMIT n FOR UPDATE))
        RETURNING workspace_id, webhook_id, position, created_at
    ), shown AS (
        UPDATE webhook_delivery d SET state = 'cancelled', next_attempt_at = NULL FROM gone g
         WHERE d.workspace_id = g.workspace_id AND d.webhook_id = g.webhook_id AND d.position = g.position AND d.created_at = g.created_at
           AND d.state = 'pending'
    )
    SELECT count(*) INTO done FROM gone;
    RETURN done;
END
$$;
-- +goose StatementEnd

-- +goose Down
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
