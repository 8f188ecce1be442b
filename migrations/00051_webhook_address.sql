-- A webhook with another address starts anew: what attempts at the address before come to no
-- longer counts, and what is pending is due at once.

-- +goose Up
ALTER TABLE webhook
    ADD COLUMN url_version integer NOT NULL DEFAULT 0,
    ADD COLUMN turned_off_since timestamptz;
UPDATE webhook SET turned_off_since = failing_since WHERE state = 'off';
COMMENT ON COLUMN webhook.url_version IS 'The version that it got when its address was last changed; 0: never. Failures of attempts that were started under an earlier one do not count.';
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on or resumed, or its address was changed; null: it is not failing.';
COMMENT ON COLUMN webhook.turned_off_since IS 'Since when every attempt had failed when it was turned off; null while on.';

-- +goose Down
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on; null: it is not failing.';
ALTER TABLE webhook DROP COLUMN url_version, DROP COLUMN turned_off_since;
