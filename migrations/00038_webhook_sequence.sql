-- Messages to a webhook are numbered 1, 2, 3, …, so that a receiver sees that one is
-- missing. A number is given, and stored, before the first attempt that carries it; the
-- cursor has it until the delivery's own row does.
--
-- Processes of the version before, which deliver beside, give no numbers and touch none:
-- what they send has none, and the next number follows the last one that was given.

-- +goose Up
ALTER TABLE webhook_cursor
    ADD COLUMN sequence bigint NOT NULL DEFAULT 0,
    ADD COLUMN numbered_positions bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN numbered_sequences bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE webhook_delivery ADD COLUMN sequence bigint;
ALTER TABLE webhook_waiting ADD COLUMN sequence bigint;
COMMENT ON COLUMN webhook_cursor.sequence IS 'The last number that was given to an event for the webhook; 0: none was.';
COMMENT ON COLUMN webhook_cursor.numbered_positions IS 'Positions of the events that have a number and may be on their way: those without a row in webhook_delivery that has it are sent by the next process.';
COMMENT ON COLUMN webhook_cursor.numbered_sequences IS 'The numbers of the events at numbered_positions, in the same order.';
COMMENT ON COLUMN webhook_delivery.sequence IS 'The number that its messages carry; null: none, because it is a test ping or was first sent by a version without numbers.';
COMMENT ON COLUMN webhook_waiting.sequence IS 'That of the row in webhook_delivery.';

-- +goose Down
ALTER TABLE webhook_waiting DROP COLUMN sequence;
ALTER TABLE webhook_delivery DROP COLUMN sequence;
ALTER TABLE webhook_cursor DROP COLUMN sequence, DROP COLUMN numbered_positions, DROP COLUMN numbered_sequences;
