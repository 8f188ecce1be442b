-- The four roles. Run once by an administrator of PostgreSQL, in the database and the
-- schema (search_path) of the tables; they cannot log in, and are given to accounts that
-- can.
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['ledgerfeed_owner', 'ledgerfeed_service', 'ledgerfeed_writer', 'ledgerfeed_auditor'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', r);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- for another database of this server, at the same time
            END;
        END IF;
    END LOOP;
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO ledgerfeed_owner', current_schema());
    -- A producer has no need of temporary tables, which take the server's disk.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO ledgerfeed_owner, ledgerfeed_service, ledgerfeed_auditor', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO ledgerfeed_owner, ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor', current_database());
END
$$;
