-- The rights of the four roles. Run by the owner of the tables, with their schema in
-- search_path; it can be run again at any time, and gives exactly these rights.

-- In a database that comes from PostgreSQL 14 or older, everybody may make functions and
-- operators in this schema, which those of the owner would find.
DO $$
BEGIN
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor', current_schema());
    IF has_schema_privilege('ledgerfeed_writer', current_schema(), 'CREATE') THEN
        RAISE EXCEPTION 'everybody may make objects in the schema %: its owner has to run REVOKE CREATE ON SCHEMA % FROM PUBLIC', current_schema(), current_schema();
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor', current_schema());
    -- A producer has no need of temporary tables, which take the server's disk. Where the owner of
    -- the tables does not own the database, its administrator has done this with the roles.
    IF pg_has_role((SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()), 'USAGE') THEN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO ledgerfeed_owner, ledgerfeed_service, ledgerfeed_auditor', current_database());
    END IF;
END
$$;

-- ledgerfeed_service: ledgerfeed serve, and the commands beside it. It reads the log
-- and appends by functions; it cannot change an entry, nor the tables themselves.
REVOKE ALL ON
    access_revision, anomaly, anomaly_acknowledged, api_key, api_key_secret, api_key_use, append_trace, charge, client, client_credit, closed_period,
    attempt_rollup, console_audit, console_link, console_session, contractor, credit_move, event_cosignature, event_log, event_rollup, event_rollup_cursor, event_tile, event_tree, goose_db_version, ingest_position, invoice, key_rollup, log_checkpoint, log_failure,
    log_detached, log_forgotten, log_head, log_skip, log_under_way, payment, producer, producer_secret, rate_count, removed_billed_charge, removed_charge, removed_time_entry, replay_audit, request_log,
    request_refused, request_rollup, secret_key, service_key, service_setting, time_entry, webhook, webhook_cursor, webhook_delivery,
    webhook_instance, webhook_mail, webhook_waiting, workspace, workspace_move, cursor_key
    FROM ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor;
-- Workspaces are moved by the owner.
GRANT SELECT ON event_log, goose_db_version, log_detached, log_forgotten, log_head, workspace_move, cursor_key TO ledgerfeed_service;
GRANT SELECT, INSERT ON console_audit TO ledgerfeed_service;
GRANT SELECT, DELETE ON append_trace TO ledgerfeed_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    access_revision, anomaly, anomaly_acknowledged, api_key, api_key_secret, api_key_use, charge, client, client_credit, closed_period,
    attempt_rollup, console_link, console_session, contractor, credit_move, event_cosignature, event_rollup, event_rollup_cursor, event_tile, event_tree, ingest_position, invoice, key_rollup, log_checkpoint, log_failure,
    log_skip, log_under_way, payment, producer, producer_secret, rate_count, removed_billed_charge, removed_charge, removed_time_entry, replay_audit, request_log,
    request_refused, request_rollup, secret_key, service_key, service_setting, time_entry, webhook, webhook_cursor, webhook_delivery,
    webhook_instance, webhook_mail, webhook_waiting, workspace
    TO ledgerfeed_service;
DO $$
DECLARE
    p regclass;
    f regprocedure;
BEGIN
    -- Partitions are reached by their tables alone, functions if they are granted below.
    FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN ('request_log'::regclass, 'webhook_delivery'::regclass) LOOP
        EXECUTE format('REVOKE ALL ON %s FROM ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor', p);
    END LOOP;
    FOR f IN SELECT oid::regprocedure FROM pg_proc
              WHERE pronamespace = quote_ident(current_schema())::regnamespace AND (prosecdef OR proname = 'workspace_unmake')
                AND proname IN ('log_append', 'log_publish', 'log_trace', 'log_forget', 'workspace_create', 'workspace_unmake', 'webhook_delivery_days') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor', f);
    END LOOP;
    -- It looks for whole days of the request log that are old, and empties them.
    FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'request_log'::regclass LOOP
        EXECUTE format('GRANT SELECT, TRUNCATE ON %s TO ledgerfeed_service', p);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION
    log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], text[], bytea[], integer, boolean),
    log_publish(text, timestamptz, json), log_trace(text, text[], text[], text[]), workspace_create(text, text, timestamptz), webhook_delivery_days(date, date), log_forget(text, integer)
    TO ledgerfeed_service;

-- ledgerfeed_writer: producers. They append, and read no table.
GRANT SELECT ON goose_db_version TO ledgerfeed_writer;
GRANT EXECUTE ON FUNCTION
    log_append(text, timestamptz, bigint, boolean, text[], text[], timestamptz[], text[], text[], text[], bytea[], integer, boolean),
    log_publish(text, timestamptz, json), log_trace(text, text[], text[], text[])
    TO ledgerfeed_writer;

-- ledgerfeed_auditor: ledgerfeed verify, explain and export. It reads the log
-- and what is made of it; no keys, secrets, sessions or webhooks.
GRANT SELECT ON
    anomaly, anomaly_acknowledged, charge, client, client_credit, closed_period, contractor, credit_move, event_log, event_tile, event_tree, goose_db_version, invoice,
    log_checkpoint, log_detached, log_failure, log_forgotten, log_head, log_skip, payment, removed_billed_charge, removed_charge, removed_time_entry, replay_audit,
    time_entry, workspace
    TO ledgerfeed_auditor;
