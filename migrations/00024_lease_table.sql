-- A lease for delivering is also of one table. Where a dump is restored into the server
-- that still runs, the lease that is in the dump may not be over, and the process that
-- had it skipped the entries at the positions that it had delivered before.

-- +goose Up
ALTER TABLE webhook_instance ADD COLUMN of_table oid;
COMMENT ON COLUMN webhook_instance.of_table IS 'The oid of this table when the lease was given: the restore of a dump makes another one, under which the lease is over. Null: given to a program before version 24 of the schema.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lease(lease text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time() AND coalesce(i.of_table, i.tableoid) = i.tableoid) THEN
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
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time()) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$$;
-- +goose StatementEnd
ALTER TABLE webhook_instance DROP COLUMN of_table;
