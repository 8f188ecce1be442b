#!/bin/sh
# Run by PostgreSQL's image when its data directory is made: the roles, and an account for
# each process (docs/operations/roles.md).
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --dbname "$POSTGRES_DB" --file /ledgerfeed/roles.sql
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --dbname "$POSTGRES_DB" <<'SQL'
\set migrate `cat /run/secrets/migrate`
\set serve `cat /run/secrets/serve`
CREATE ROLE billing_migrate LOGIN PASSWORD :'migrate' IN ROLE ledgerfeed_owner;
ALTER ROLE billing_migrate SET role = ledgerfeed_owner;
CREATE ROLE billing_serve LOGIN PASSWORD :'serve' IN ROLE ledgerfeed_service;
SQL
