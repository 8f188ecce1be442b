-- What changes the log, and what makes and drops partitions, runs with the rights of
-- the tables' owner, so that the roles of processes and producers need no right to
-- change those tables (ledgerfeed migrate --grants). Nobody else may call it.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    f text;
    r regrole;
BEGIN
    FOREACH f IN ARRAY ARRAY[
        'log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
        'log_publish(text, timestamptz, json)', 'workspace_create(text, text, timestamptz)', 'webhook_delivery_days(date, date)'
    ] LOOP
        -- Accounts that append by rights that somebody gave them go on.
        FOR r IN SELECT a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                  WHERE c.oid = 'event_log'::regclass AND a.privilege_type = 'INSERT' AND a.grantee NOT IN (0, c.relowner) LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', f, r);
        END LOOP;
        -- Names are found in this schema alone, not in one of the caller's.
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', f, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
    REVOKE EXECUTE ON FUNCTION workspace_unmake(text) FROM PUBLIC; -- log_append calls it
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    f text;
BEGIN
    FOREACH f IN ARRAY ARRAY[
        'log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], integer, boolean)',
        'log_publish(text, timestamptz, json)', 'workspace_create(text, text, timestamptz)', 'webhook_delivery_days(date, date)'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER RESET search_path', f);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
    GRANT EXECUTE ON FUNCTION workspace_unmake(text) TO PUBLIC;
END
$$;
-- +goose StatementEnd
