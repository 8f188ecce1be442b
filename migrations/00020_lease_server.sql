-- A lease for delivering is of one run of the database server. What a process
-- remembers of its webhooks are positions in the log, and after a failover or the
-- restore of a backup the log may be an older one: with the lease that it still
-- had, the process skipped the entries that came at the positions it had
-- delivered before.

-- +goose Up
ALTER TABLE webhook_instance ADD COLUMN server_start timestamptz NOT NULL DEFAULT pg_postmaster_start_time();
COMMENT ON COLUMN webhook_instance.server_start IS 'When the database server was started that gave the lease. It is over under any other.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time()) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd
ALTER TABLE webhook_instance DROP COLUMN server_start;
