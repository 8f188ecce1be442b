package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func checkServerVersion(ctx context.Context, x *examination) ([]Finding, error) {
	major, text, err := pg.ServerVersion(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	if major < pg.OldestServer {
		return []Finding{{Level: Error, Text: "PostgreSQL " + text, Do: fmt.Sprintf("upgrade the server to PostgreSQL %d or newer", pg.OldestServer)}}, nil
	}
	return ok("PostgreSQL %s", text), nil
}

func checkSchema(ctx context.Context, x *examination) ([]Finding, error) {
	fit, err := migrations.Fit(ctx, x.db.URL)
	if err != nil {
		return nil, err
	}
	switch fit {
	case migrations.Absent:
		return []Finding{{Level: Error, Text: "the database has no tables of this program", Do: "run ledgerfeed migrate"}}, nil
	case migrations.Older:
		return []Finding{{Level: Error, Text: "the schema is older than this program", Do: "run ledgerfeed migrate, and ledgerfeed doctor again"}}, nil
	case migrations.Newer:
		return []Finding{{Level: Warning, Text: "the schema is newer than this program", Do: "finish the upgrade: run the newer program everywhere"}}, nil
	case migrations.Current:
	}
	return ok("up to date"), nil
}

// mostDrift is how far clocks may be apart before retries and expiry are noticeably off.
const mostDrift = 5 * time.Second

func checkClock(ctx context.Context, x *examination) ([]Finding, error) {
	before := x.env.Clock()
	var database time.Time
	if err := x.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&database); err != nil {
		return nil, fmt.Errorf("cannot read the database's clock: %w", err)
	}
	after := x.env.Clock()
	// The database looked at its clock between the two.
	drift := max(before.Sub(database), database.Sub(after), 0)
	f := Finding{Text: fmt.Sprintf("%v from the database's clock", drift.Round(time.Millisecond)), Do: "synchronize the clocks of all machines (NTP)"}
	switch {
	case drift > eventlog.MaxAhead:
		f.Level = Error
		f.Text += "; appends are refused and webhooks are not sent"
	case drift > mostDrift:
		f.Level = Warning
	default:
		return ok("%s", f.Text), nil
	}
	return []Finding{f}, nil
}

func checkPrivileges(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		user       string
		super, own bool
		missing    []string
	)
	err := x.pool.QueryRow(ctx, `
		SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&user, &super)
	if err != nil {
		return nil, fmt.Errorf("cannot read the role: %w", err)
	}
	err = x.pool.QueryRow(ctx, `
		SELECT coalesce(bool_and(pg_has_role(c.relowner, 'USAGE')), true),
		       coalesce(array_agg(c.relname ORDER BY c.relname) FILTER (WHERE NOT has_table_privilege(c.oid, 'SELECT')), '{}')
		  FROM pg_class c WHERE c.relnamespace = to_regnamespace(current_schema())::oid AND c.relkind IN ('r', 'p') AND NOT c.relispartition`).Scan(&own, &missing)
	if err != nil {
		return nil, fmt.Errorf("cannot read the privileges: %w", err)
	}
	var above string
	err = x.pool.QueryRow(ctx, `
		SELECT coalesce(min(r.rolname), '') FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
		 WHERE p.pronamespace = to_regnamespace(current_schema())::oid AND p.prosecdef AND r.rolsuper`).Scan(&above)
	if err != nil {
		return nil, fmt.Errorf("cannot read the owner of the functions: %w", err)
	}
	switch {
	case len(missing) > 0:
		return []Finding{{Level: Error, Text: fmt.Sprintf("the role %s may not read %v", user, missing), Do: "run ledgerfeed migrate --grants apply as the owner of the tables, or connect as another role (docs/operations/roles.md)"}}, nil
	case super && !x.db.IsLocal():
		return []Finding{{Level: Warning, Text: "the role " + user + " is a superuser", Do: "create a role of its own that owns the database: the program needs no more"}}, nil
	case above != "" && !x.db.IsLocal():
		return []Finding{{Level: Warning, Text: "the functions that append run with the rights of " + above + ", a superuser", Do: "let a role of its own own the tables and functions (docs/operations/roles.md)"}}, nil
	case !own:
		return ok("the role %s, which does not own the tables", user), nil
	}
	return ok("the role %s", user), nil
}

// checkDurability looks for settings with which a crash loses what was acknowledged.
func checkDurability(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		list          []Finding
		name, setting string
	)
	err := pg.ForEach(ctx, x.pool, `
		SELECT name, setting FROM pg_settings
		 WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name`,
		nil, []any{&name, &setting}, func() error {
			f := Finding{Level: Error, Text: name + " is " + setting + ": a crash of the server can destroy the database", Do: "turn it on"}
			if name == "synchronous_commit" {
				f = Finding{Level: Error, Text: name + " is off: a crash of the server loses appends that were acknowledged", Do: "turn it on for this database and role"}
			}
			list = append(list, f)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("cannot read the server's settings: %w", err)
	}
	if len(list) == 0 {
		return ok("a crash of the server loses nothing that was committed"), nil
	}
	return list, nil
}

func checkConnections(ctx context.Context, x *examination) ([]Finding, error) {
	u, err := service.ReadServerUse(ctx, x.env, x.db, x.pool)
	switch {
	case err != nil:
		return nil, err
	case x.db.Pooled:
		return ok("%d of %d %s in use; processes connect through a pooler, which bounds its own", u.Used, u.Max, texts.Plural(u.Used, "is", "are")), nil
	case u.Warning != "":
		return []Finding{{Level: Warning, Text: fmt.Sprintf("%d of %d connections %s in use", u.Used, u.Max, texts.Plural(u.Used, "is", "are")), Do: u.Warning}}, nil
	}
	return ok("%d of %d %s in use", u.Used, u.Max, texts.Plural(u.Used, "is", "are")), nil
}

// oldTransactions is the age from which the server is near its limit, which is 2,000
// million transactions.
const oldTransactions = 1_000_000_000

func checkVacuum(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		on  bool
		age int64
	)
	err := x.pool.QueryRow(ctx, `
		SELECT current_setting('autovacuum')::boolean, greatest(age(datfrozenxid), mxid_age(datminmxid)) FROM pg_database WHERE datname = current_database()`).Scan(&on, &age)
	if err != nil {
		return nil, fmt.Errorf("cannot read the age of the database: %w", err)
	}
	var list []Finding
	if !on {
		list = append(list, Finding{Level: Error, Text: "autovacuum is off: tables and indexes grow without end", Do: "turn it on"})
	}
	if age > oldTransactions {
		list = append(list, Finding{
			Level: Error, Text: fmt.Sprintf("the oldest transactions are %d back; at 2,000 million the server stops", age),
			Do: "find what holds vacuum back (the checks below), and run VACUUM",
		})
	}
	if len(list) == 0 {
		return ok("autovacuum is on"), nil
	}
	return list, nil
}

// longTransaction is how long a transaction may be open before it harms: vacuum cannot
// remove rows that it might still see, so pages become slower. One that has locked the
// checkpoint of a workspace, as a projector does, is named much earlier: entries of that
// workspace wait for it, and only one that changes very many rows takes a minute.
const (
	longTransaction = 15 * time.Minute
	longProjection  = time.Minute
)

func checkTransactions(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		list     []Finding
		who      string
		age      float64
		projects bool
	)
	err := pg.ForEach(ctx, x.pool, `
		SELECT 'session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', ''), extract(epoch FROM clock_timestamp() - xact_start), projects
		  FROM pg_stat_activity a CROSS JOIN LATERAL (
		       SELECT EXISTS (SELECT FROM pg_locks l
		                       WHERE l.pid = a.pid AND l.relation = 'log_checkpoint'::regclass AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock')) AS projects) p
		 WHERE datname = current_database() AND clock_timestamp() - xact_start > CASE WHEN projects THEN $2::interval ELSE $1 END AND backend_type <> 'autovacuum worker'
		 UNION ALL
		SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared), false
		  FROM pg_prepared_xacts WHERE database = current_database() AND clock_timestamp() - prepared > $1
		 ORDER BY 2 DESC LIMIT 5`, []any{longTransaction, longProjection}, []any{&who, &age, &projects}, func() error {
		f := Finding{
			Level: Warning, Text: fmt.Sprintf("%s has had a transaction open for %v", who, time.Duration(age*float64(time.Second)).Round(time.Second)),
			Do: "end it: vacuum cannot remove old rows meanwhile, and everything becomes slower",
		}
		if projects {
			f.Text += ", in which it has locked the checkpoint of a workspace: entries of that workspace wait"
			f.Do = "see ledgerfeed status for the workspace. If the log says that an entry changes many rows, and ledgerfeed_mass_changed_rows_total grows, let it finish; otherwise end the session"
		}
		list = append(list, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the open transactions: %w", err)
	}
	return ofSessions(ctx, x, list, "none has been open for long")
}

// ofSessions returns the findings about sessions or, if there are none, what is true of those that
// this account sees.
func ofSessions(ctx context.Context, x *examination, list []Finding, none string) ([]Finding, error) {
	if len(list) > 0 {
		return list, nil
	}
	var all bool
	if err := x.pool.QueryRow(ctx, `SELECT pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&all); err != nil {
		return nil, fmt.Errorf("cannot read which sessions can be seen: %w", err)
	}
	if !all {
		return ok("of this account, %s; sessions of others are seen only with the role pg_read_all_stats", none), nil
	}
	return ok("%s", none), nil
}

// longLock is how long a session may stop others before it is named.
const longLock = 5 * time.Second

// checkLocks names the sessions that others wait for, and those with an exclusive lock on a table,
// which every other statement on that table has to wait for. A session that waits itself is left
// out, because the one that it waits for is named. The check reads only the server's own views,
// which nobody locks.
func checkLocks(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		list        []Finding
		pid         int
		who, tables string
		age         float64
		waiting     int64
	)
	err := pg.ForEach(ctx, x.pool, `
		WITH waits AS (
		  SELECT unnest(pg_blocking_pids(pid)) AS by FROM pg_stat_activity
		   WHERE datname = current_database() AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > $1)
		SELECT a.pid, coalesce(' (' || nullif(a.application_name, '') || ')', ''), extract(epoch FROM clock_timestamp() - a.xact_start), t.names, w.waiting
		  FROM pg_stat_activity a
		  CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM waits WHERE by = a.pid) w
		  CROSS JOIN LATERAL (
		       SELECT coalesce(string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname), '') AS names
		         FROM pg_locks l JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
		        WHERE l.pid = a.pid AND l.granted AND l.mode = 'AccessExclusiveLock'
		          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) t
		 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Lock'
		   AND clock_timestamp() - a.xact_start > $1 AND (t.names <> '' OR w.waiting > 0)
		 ORDER BY 5 DESC, 3 DESC LIMIT 5`, []any{longLock}, []any{&pid, &who, &age, &tables, &waiting}, func() error {
		text := fmt.Sprintf("session %d%s has had its transaction open for %v", pid, who, time.Duration(age*float64(time.Second)).Round(time.Second))
		if tables != "" {
			text += ", and holds a lock on " + tables + " that stops every other session there"
		}
		if waiting > 0 {
			text += ", and " + texts.Count(waiting, "session waits", "sessions wait") + " for it"
		}
		list = append(list, Finding{
			Level: Error, Text: text,
			Do: fmt.Sprintf("if it is not a migration, or a rename with very many rows, that is still at work, end it: SELECT pg_terminate_backend(%d)", pid),
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the locks: %w", err)
	}
	return ofSessions(ctx, x, list, fmt.Sprintf("no session has blocked others for %v", longLock))
}

// keptLog is how much of the write-ahead log may be kept for a replica.
const keptLog = 1 << 30

func checkReplication(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		list   []Finding
		slot   string
		active bool
		kept   int64
	)
	err := pg.ForEach(ctx, x.pool, `
		SELECT slot_name, active, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::bigint
		  FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY slot_name`, nil, []any{&slot, &active, &kept}, func() error {
		switch {
		case kept <= keptLog:
		case active:
			list = append(list, Finding{
				Level: Warning, Text: fmt.Sprintf("the replica of the replication slot %s is %d MiB behind, and the server keeps that much write-ahead log for it", slot, kept>>20),
				Do: "see what slows the replica or the network to it: the disk fills up",
			})
		default:
			list = append(list, Finding{
				Level: Warning, Text: fmt.Sprintf("nobody uses the replication slot %s, and the server keeps %d MiB for it", slot, kept>>20),
				Do: "bring the replica back, or drop the slot: the disk fills up",
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the replication slots: %w", err)
	}
	if len(list) == 0 {
		return ok("no slot keeps much of the write-ahead log"), nil
	}
	return list, nil
}

// checkEncoding looks whether the database can keep every character.
func checkEncoding(ctx context.Context, x *examination) ([]Finding, error) {
	err := pg.CheckEncoding(ctx, x.pool)
	if wrong, ok := errors.AsType[*pg.EncodingError](err); ok {
		return []Finding{{
			Level: Error, Text: "the database has the encoding " + wrong.Encoding + ", which cannot keep every character of the log",
			Do: wrong.Do() + "; ledgerfeed export and append --restore bring the log there",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	return ok("UTF8"), nil
}

// shortTimeout is how long a producer's transaction may take when much else is going on.
const shortTimeout = 10 * time.Second

// timeout is a timeout of connections that do not set their own.
type timeout struct {
	name, source string
	lasts        time.Duration
}

// checkTimeouts says which timeouts the account's connections have that do not set their own,
// as the program's do.
func checkTimeouts(ctx context.Context, x *examination) ([]Finding, error) {
	list, err := readTimeouts(ctx, x.db.URL)
	if pg.Canceled(err) {
		return []Finding{timeoutFinding(&timeout{name: "statement_timeout"})}, nil
	}
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for i := range list {
		findings = append(findings, timeoutFinding(&list[i]))
	}
	if len(findings) == 0 {
		return ok("none is set for this account or database"), nil
	}
	return findings, nil
}

func readTimeouts(ctx context.Context, url string) (list []timeout, err error) {
	conn, err := pg.ConnectAsOthers(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect as another program: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// If a timeout is too short even for this statement, the statement's error names it.
	list, err = pg.Collect(ctx, conn, func(row pgx.CollectableRow) (t timeout, err error) {
		var milliseconds int64
		err = row.Scan(&t.name, &t.source, &milliseconds)
		t.lasts = time.Duration(milliseconds) * time.Millisecond
		return t, err
	}, `
		SELECT name, CASE source WHEN 'database' THEN 'of the database' WHEN 'user' THEN 'of the account' WHEN 'database user' THEN 'of the account in this database'
		       WHEN 'client' THEN 'of DATABASE_URL' ELSE 'of the server' END, setting::bigint
		  FROM pg_settings WHERE name = ANY ($1) AND setting <> '0' ORDER BY name`, pg.Timeouts())
	if err != nil {
		return nil, fmt.Errorf("read the timeouts: %w", err)
	}
	return list, nil
}

// timeoutFinding says what a timeout does. The program itself sets its own on its connections.
func timeoutFinding(t *timeout) Finding {
	does := map[string]string{
		"statement_timeout":                   "PostgreSQL ends each statement that takes longer",
		"lock_timeout":                        "PostgreSQL ends each statement that waits longer for a lock",
		"idle_in_transaction_session_timeout": "PostgreSQL closes a connection that does nothing in a transaction for longer",
		"transaction_timeout":                 "PostgreSQL closes a connection whose transaction takes longer",
	}[t.name]
	lasts := "too short to be read"
	if t.lasts > 0 {
		lasts = fmt.Sprintf("%v (%s)", t.lasts, t.source)
	}
	f := Finding{Level: OK, Text: fmt.Sprintf("%s is %s: %s. Ledgerfeed sets its own; producers that append in SQL, and psql, have this one", t.name, lasts, does)}
	if t.lasts < shortTimeout {
		f.Level = Warning
		f.Do = fmt.Sprintf("raise it: ALTER ROLE … SET %s = '1min', or ALTER DATABASE … where it is the database's; a producer's appends may fail under load", t.name)
	}
	return f
}

// checkStandbys looks at the standbys that answers are read from.
func checkStandbys(ctx context.Context, x *examination) (list []Finding, err error) {
	is, err := service.LookAtStandbys(ctx, x.env, x.pool)
	switch {
	case err != nil:
		return nil, err
	case is == nil:
		return ok("answers are read from the primary alone"), nil
	case !is.Used:
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("answers are not read from the standbys at %s: %s", is.Name, is.Problem),
			Do: "bring them back, or take LEDGERFEED_READ_DATABASE_URL out of every process: until then the primary answers",
		}}, nil
	}
	advice, err := standby.Advise(ctx, x.env.Settings.ReadURL)
	if err != nil {
		return nil, err
	}
	if advice.Feedback && advice.Delay >= 0 {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("after %v, a standby at %s ends statements that block its replay: whole lists break off, and it lags until then", advice.Delay, is.Name),
			Do: "set hot_standby_feedback = on at the standby (docs/operations/standbys.md)",
		})
	}
	if advice.Stats {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("after a failover, the account at the standbys at %s needs minutes to see that they follow the new primary; until then they are not read from", is.Name),
			Do: "GRANT pg_read_all_stats to the account, at the primary",
		})
	}
	if len(list) == 0 {
		return ok("answers are read from the standbys at %s", is.Name), nil
	}
	return list, nil
}
