package pg

// OutsidersHold is SQL: whether the advisory lock with the key $1 is held, and by no session whose
// account fulfils a condition on its id, a.usesysid. Any account of the database can take an
// advisory lock, and must not hold up by it what only some accounts do.
func OutsidersHold(condition string) string {
	return `(SELECT count(*) > 0 AND NOT coalesce(bool_or(` + condition + `), false)
		   FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		  WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
		    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		    AND l.classid::bigint = ($1::bigint >> 32) AND l.objid::bigint = ($1::bigint & 4294967295))`
}
