package supportbundle

// own is which relations are this program's: those of the owner and schema of the log.
// Others that share the database are not named.
const own = `c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'event_log'::regclass) AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = 'event_log'::regclass)`

// free is whether a relation's size can be asked for without waiting for its lock.
const free = `NOT EXISTS (SELECT FROM pg_locks l WHERE l.relation = c.oid AND l.mode = 'AccessExclusiveLock')`

// application is the name of a program that is connected, where it is one of those that
// belong here.
const application = `CASE WHEN application_name IN ('', 'psql', 'pg_dump', 'pg_basebackup', 'pg_receivewal') OR application_name ~ '^ledgerfeed[a-z -]*$' THEN application_name ELSE 'other' END`

// serverQuestions are about PostgreSQL. Each of the questions is bounded: by a LIMIT, or
// because it counts. Texts that others choose (roles, applications, slots, errors) are not
// read, or are reduced to whether they are known.
func serverQuestions() []question {
	return []question{
		{"postgresql.json", "the server and the database", `
			SELECT version() AS version, pg_postmaster_start_time() AS started, clock_timestamp() AS clock, pg_is_in_recovery() AS recovering,
			       pg_database_size(current_database()) AS bytes, age(d.datfrozenxid) AS oldest_transaction, pg_encoding_to_char(d.encoding) AS encoding, d.datcollate AS collation,
			       s.numbackends, s.xact_commit, s.xact_rollback, s.blks_read, s.blks_hit, s.temp_files, s.temp_bytes, s.deadlocks, s.conflicts, s.stats_reset
			  FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datname = current_database()`},
		{"postgresql_settings.json", "settings of PostgreSQL that are not the default; texts, which may be paths, names or passwords, are not shown", `
			SELECT name, unit, source, pending_restart,
			       CASE WHEN vartype <> 'string' OR name IN ('server_version', 'TimeZone', 'shared_preload_libraries', 'client_encoding', 'server_encoding') THEN setting ELSE '(set, not shown)' END AS setting
			  FROM pg_settings WHERE source NOT IN ('default', 'client', 'session') AND name !~ '[.]' ORDER BY name`},
		{"tables.json", "sizes and statistics of this program's tables", `
			SELECT c.relname AS name, CASE WHEN ` + free + ` THEN pg_total_relation_size(c.oid) END AS bytes, CASE WHEN ` + free + ` THEN pg_relation_size(c.oid) END AS heap_bytes, c.reltuples::bigint AS rows, age(c.relfrozenxid) AS oldest_transaction,
			       s.seq_scan, s.idx_scan, s.n_tup_ins, s.n_tup_upd, s.n_tup_hot_upd, s.n_tup_del, s.n_live_tup, s.n_dead_tup,
			       s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze, s.autovacuum_count
			  FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
			 WHERE c.relkind = 'r' AND ` + own + ` ORDER BY 2 DESC NULLS FIRST, 1 LIMIT 500`},
		{"indexes.json", "sizes and use of their indexes", `
			SELECT c.relname AS name, CASE WHEN ` + free + ` THEN pg_relation_size(c.oid) END AS bytes, i.indisvalid AS valid, s.idx_scan, s.idx_tup_read
			  FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = c.oid
			 WHERE c.relkind = 'i' AND ` + own + ` ORDER BY 2 DESC NULLS FIRST, 1 LIMIT 500`},
		{"sessions.json", "sessions by kind, application, state and what they wait for, with the oldest of each", `
			SELECT coalesce(backend_type, 'other') AS kind, ` + application + ` AS application, state, wait_event_type, wait_event, count(*) AS sessions,
			       max(extract(epoch FROM clock_timestamp() - backend_start))::bigint AS session_seconds,
			       max(extract(epoch FROM clock_timestamp() - xact_start))::bigint AS transaction_seconds,
			       max(extract(epoch FROM clock_timestamp() - state_change))::bigint AS state_seconds, max(age(backend_xmin)) AS oldest_snapshot
			  FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
			 GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 1, 2, 3, 4, 5 LIMIT 200`},
		{"locks.json", "locks that are held and waited for, by this program's tables", `
			SELECT l.locktype, CASE WHEN ` + own + ` THEN c.relname END AS relation, l.mode, l.granted, count(*) AS locks,
			       max(extract(epoch FROM clock_timestamp() - l.waitstart))::bigint AS wait_seconds
			  FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation
			 WHERE l.pid <> pg_backend_pid() AND (l.database IS NULL OR l.database = 0 OR l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
			 GROUP BY 1, 2, 3, 4 ORDER BY 4, 5 DESC, 1, 2, 3 LIMIT 200`},
		{"replication_slots.json", "replication slots, without their names", `
			SELECT row_number() OVER (ORDER BY slot_name) AS slot, slot_type, active, wal_status, age(xmin) AS oldest_transaction,
			       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::bigint AS kept_bytes
			  FROM pg_replication_slots ORDER BY 1 LIMIT 100`},
		{"replicas.json", "replicas, without their names and addresses", `
			SELECT row_number() OVER (ORDER BY backend_start, pid) AS replica, state, sync_state, pg_wal_lsn_diff(sent_lsn, replay_lsn)::bigint AS behind_bytes,
			       extract(epoch FROM replay_lag)::float8 AS behind_seconds FROM pg_stat_replication ORDER BY 1 LIMIT 100`},
		{"archive.json", "archiving of the write-ahead log", `
			SELECT archived_count, last_archived_time, failed_count, last_failed_time FROM pg_stat_archiver`},
		{"prepared.json", "prepared transactions, which hold vacuum back", `
			SELECT count(*) AS transactions, max(extract(epoch FROM clock_timestamp() - prepared))::bigint AS oldest_seconds FROM pg_prepared_xacts WHERE database = current_database()`},
	}
}
