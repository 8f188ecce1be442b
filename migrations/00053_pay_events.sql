-- The event of a charge whose entry says that it is not billed to the client needs pay:read, as that
-- of a payout does. So it is no longer a leaf of the tree of those without. The trees of workspaces
-- that have such an event are built anew from the first entry on; the others, and all trees of those
-- with pay:read, stay as they are. A checkpoint of the tree of before fits the new one no more, and
-- neither do cosignatures of it.
--
-- To read the schema, open schema.sql: it is made from the migrations.

-- +goose Up
COMMENT ON COLUMN event_tree.sight IS 'Which events are its leaves: events is those that need no pay:read, so none of payouts and of charges that are not billed to the client; events-with-pay is all.';

CREATE TEMPORARY TABLE changed_trees ON COMMIT DROP AS
    SELECT t.workspace_id FROM event_tree t
     WHERE t.sight = 'events'
       AND EXISTS (SELECT FROM event_log e
                    WHERE e.workspace_id = t.workspace_id AND e.public_event IS NOT NULL
                      AND e.type IN ('charge.created', 'charge.deleted') AND e.position <= t.position
                      AND e.data ->> 'billed_to_client' IS NOT DISTINCT FROM 'false');
UPDATE log_checkpoint SET position = 0, moved_at = NULL, failures = 0, failed_to = NULL, segment_max = NULL, error = NULL, retry_at = NULL, quarantined = false
 WHERE consumer = 'event_trees' AND workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_tile WHERE sight = 'events' AND workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_cosignature WHERE sight = 'events' AND workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_tree WHERE sight = 'events' AND workspace_id IN (SELECT workspace_id FROM changed_trees);

-- +goose Down
-- The version before builds the same trees of the workspaces that have no such event. Those of the
-- others it builds anew.
COMMENT ON COLUMN event_tree.sight IS 'Which events are its leaves: events is those that need no pay:read, events-with-pay is all.';
CREATE TEMPORARY TABLE changed_trees ON COMMIT DROP AS
    SELECT t.workspace_id FROM event_tree t
     WHERE t.sight = 'events'
       AND EXISTS (SELECT FROM event_log e
                    WHERE e.workspace_id = t.workspace_id AND e.public_event IS NOT NULL
                      AND e.type IN ('charge.created', 'charge.deleted')
                      AND e.data ->> 'billed_to_client' IS NOT DISTINCT FROM 'false');
UPDATE log_checkpoint SET position = 0, moved_at = NULL, failures = 0, failed_to = NULL, segment_max = NULL, error = NULL, retry_at = NULL, quarantined = false
 WHERE consumer = 'event_trees' AND workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_tile WHERE workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_cosignature WHERE workspace_id IN (SELECT workspace_id FROM changed_trees);
DELETE FROM event_tree WHERE workspace_id IN (SELECT workspace_id FROM changed_trees);
