-- The four roles. Run once by an administrator of PostgreSQL; they cannot log in, and
-- are given to accounts that can. {schema} is the schema of the tables, {database} the
-- database.
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
END
$$;
REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA {schema} TO ledgerfeed_owner;
GRANT TEMPORARY ON DATABASE {database} TO ledgerfeed_service, ledgerfeed_auditor;
GRANT CONNECT ON DATABASE {database} TO ledgerfeed_owner, ledgerfeed_service, ledgerfeed_writer, ledgerfeed_auditor;
