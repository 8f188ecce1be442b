-- A workspace can have several addresses for mail about its webhooks. Each gets a mail of
-- its own, so that a server that refuses one of them does not hold up the others.

-- +goose Up
ALTER TABLE webhook_mail ADD COLUMN recipient text;
COMMENT ON COLUMN webhook_mail.recipient IS 'Who it is for; it is dropped when workspace.notify_email no longer has the address. Null: all of them.';
COMMENT ON COLUMN workspace.notify_email IS 'Mail addresses of the finance team, separated by a comma and a space, which get a mail when a webhook fails or is turned off. Null: nobody gets one.';

-- +goose Down
COMMENT ON COLUMN workspace.notify_email IS 'Address of the finance team, which gets a mail when a webhook fails or is turned off. Null: nobody gets one.';
ALTER TABLE webhook_mail DROP COLUMN recipient;
