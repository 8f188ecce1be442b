-- Writes all entries in the order of time, and empties the outbox of the messages whose changes they
-- hold. Both see one moment. Messages of later transactions stay in the outbox.

BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT entry || jsonb_build_object('created_at', lf_time(at)) FROM ledgerfeed_entries ORDER BY at, step, key;
DELETE FROM watermill_ledgerfeed;
COMMIT;
