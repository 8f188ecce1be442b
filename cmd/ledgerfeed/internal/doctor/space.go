package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// biggest is how many tables are named.
const biggest = 4

// fewEntries is how many entries a log has to have before bytes an entry can be told
// from it.
const fewEntries = 10_000

// usualBytes is what an entry of the demo's kind adds to the log and the read tables, with
// their indexes (docs/operations/sizing.md).
const usualBytes = 2_200

// removedByAge reports whether a table's rows are removed after some days. All other large
// tables grow with the log.
func removedByAge(table string) bool { return table == "webhook_delivery" || table == "request_log" }

// tableSize is a table with its indexes and partitions on the disk.
type tableSize struct {
	name  string
	bytes int64
}

// readTables lists the tables of the current schema, biggest first. A partition that is
// dropped meanwhile counts as nothing.
func readTables(ctx context.Context, x *examination) ([]tableSize, error) {
	list, err := pg.Collect(ctx, x.pool, func(row pgx.CollectableRow) (t tableSize, err error) {
		err = row.Scan(&t.name, &t.bytes)
		return t, err
	}, `
		SELECT r.relname, sum(coalesce(pg_total_relation_size(c.oid), 0))::bigint AS bytes
		  FROM pg_class c JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid)
		 WHERE c.relnamespace = to_regnamespace(current_schema())::oid AND c.relkind IN ('r', 'p')
		 GROUP BY r.relname ORDER BY bytes DESC, r.relname COLLATE "C"`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the sizes of tables: %w", err)
	}
	return list, nil
}

// sizeOf writes a number of bytes in powers of 1,024.
func sizeOf(bytes int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	n, i := float64(bytes), 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	if i > 0 && n < 10 {
		return fmt.Sprintf("%.1f %s", n, units[i])
	}
	return fmt.Sprintf("%.0f %s", n, units[i])
}

// growth is what the database has, and what comes to it in a day.
type growth struct {
	database, perDay int64 // bytes
	entries          int64 // of the last 24 hours
}

// readGrowth looks at the last 24 hours, by the entries' publish times.
func readGrowth(ctx context.Context, x *examination) (g growth, tables []tableSize, err error) {
	var all int64
	err = x.pool.QueryRow(ctx, `
		SELECT pg_database_size(current_database()), coalesce(sum(h.position), 0)::bigint,
		       coalesce(sum(CASE WHEN h.created_at >= $1 THEN h.position + 1 - log_position_since(h.workspace_id, $1) END), 0)::bigint
		  FROM log_head h`, x.env.Clock().Add(-24*time.Hour)).Scan(&g.database, &all, &g.entries)
	if err != nil {
		return g, nil, fmt.Errorf("cannot read the size of the database: %w", err)
	}
	if tables, err = readTables(ctx, x); err != nil {
		return g, nil, err
	}
	perEntry := float64(usualBytes)
	if all >= fewEntries {
		var grown int64
		for _, t := range tables {
			if !removedByAge(t.name) {
				grown += t.bytes
			}
		}
		perEntry = float64(grown) / float64(all)
	}
	g.perDay = int64(perEntry * float64(g.entries))
	return g, tables, nil
}

// checkSize says what takes the space. That it is much is no mistake.
func checkSize(ctx context.Context, x *examination) ([]Finding, error) {
	g, tables, err := readGrowth(ctx, x)
	if err != nil {
		return nil, err
	}
	var named []string
	for _, t := range tables[:min(biggest, len(tables))] {
		named = append(named, t.name+" "+sizeOf(t.bytes))
	}
	return ok("%s, of which %s, with indexes; %s in the last 24 hours, about %s", sizeOf(g.database), strings.Join(named, ", "), texts.Count(g.entries, "entry", "entries"), sizeOf(g.perDay)), nil
}

// manyDead is how many dead rows a table may have before their share counts.
const manyDead = 100_000

// checkDeadRows looks for tables where vacuum removes less than is changed. Autovacuum
// starts at a fifth of the live rows at most, if nothing holds it back.
func checkDeadRows(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		list       []Finding
		table      string
		dead, live int64
		vacuumed   *time.Time
	)
	err := pg.ForEach(ctx, x.pool, `
		SELECT relname, n_dead_tup, n_live_tup, greatest(last_vacuum, last_autovacuum) FROM pg_stat_user_tables
		 WHERE schemaname = current_schema() AND n_dead_tup > $1 AND n_dead_tup > n_live_tup / 2 ORDER BY n_dead_tup DESC LIMIT 5`,
		[]any{manyDead}, []any{&table, &dead, &live, &vacuumed}, func() error {
			last := "never vacuumed"
			if vacuumed != nil {
				last = "vacuumed last on " + vacuumed.UTC().Format(time.DateTime) + " UTC"
			}
			list = append(list, Finding{
				Level: Warning, Text: fmt.Sprintf("%s has %s and %s; %s", table, texts.Count(dead, "dead row", "dead rows"), texts.Count(live, "live one", "live ones"), last),
				Do: "check that nothing holds vacuum back (transactions, replication) and that autovacuum is on for the table; VACUUM " + table + " removes them now",
			})
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("cannot read the statistics of tables: %w", err)
	}
	if len(list) == 0 {
		return ok("no table has many"), nil
	}
	return list, nil
}

// Days of the request log and of deliveries are removed once a day, and a little later
// while a long transaction reads them.
const (
	requestDays = 31
	lateDays    = 2
)

// checkOldDays looks for days of deliveries and requests that should have been removed.
func checkOldDays(ctx context.Context, x *examination) ([]Finding, error) {
	now := x.env.Clock().UTC()
	oldest := now.Add(-x.env.Settings.Retention).AddDate(0, 0, -lateDays)
	var (
		days    int
		first   *string
		request *time.Time
	)
	err := x.pool.QueryRow(ctx, `
		SELECT count(*), min(right(c.relname, 8)) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		 WHERE i.inhparent = to_regclass('webhook_delivery') AND c.relname ~ '^webhook_delivery_[0-9]{8}$' AND right(c.relname, 8) < $1`,
		oldest.Format("20060102")).Scan(&days, &first)
	if err != nil {
		return nil, fmt.Errorf("cannot list the days of deliveries: %w", err)
	}
	// All requests of a partition are of one day, so that any of them tells.
	err = x.pool.QueryRow(ctx, `
		SELECT min(r.at) FROM generate_series(0, 31) AS s (slot) CROSS JOIN LATERAL (SELECT at FROM request_log WHERE slot = s.slot LIMIT 1) r`).Scan(&request)
	if err != nil {
		return nil, fmt.Errorf("cannot read the days of requests: %w", err)
	}
	var list []Finding
	if days > 0 {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("%s of deliveries %s past the retention, the oldest is %s", texts.Count(days, "day", "days"), texts.Plural(days, "is", "are"), *first),
			Do: "check that a process with the role deliver runs, and that no long transaction reads webhook_delivery; it removes them once a day",
		})
	}
	if request != nil && request.Before(now.AddDate(0, 0, -requestDays-lateDays)) {
		list = append(list, Finding{
			Level: Warning, Text: "the request log has requests of " + request.UTC().Format(time.DateOnly),
			Do: "check that a process with the role api runs, and that no long transaction reads request_log; it removes a day once a day",
		})
	}
	if len(list) == 0 {
		return ok("days past the retention are removed"), nil
	}
	return list, nil
}

// checkArchiving looks for write-ahead log that cannot be archived: the server keeps it
// until it is, and there is no backup of it.
func checkArchiving(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		on     bool
		failed *string
		count  int64
	)
	err := x.pool.QueryRow(ctx, `
		SELECT current_setting('archive_mode') <> 'off', CASE WHEN last_failed_time > coalesce(last_archived_time, '-infinity') THEN last_failed_wal END, failed_count
		  FROM pg_stat_archiver`).Scan(&on, &failed, &count)
	if err != nil {
		return nil, fmt.Errorf("cannot read whether the write-ahead log is archived: %w", err)
	}
	switch {
	case on && failed != nil:
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("%s of the write-ahead log cannot be archived (%s): the server keeps all of it from there on, and backups end there", *failed, texts.Count(count, "failure", "failures")),
			Do: "read the server's log for the error of archive_command or archive_library, and mend it: the disk fills up",
		}}, nil
	case on:
		return ok("the write-ahead log is archived"), nil
	}
	return ok("off"), nil
}

// tryWrite lets the server write 1 MiB to the disk of the database, and takes it back: a disk that is
// full shows from every machine. What a server without space does at once is refuse (53100). It
// returns what the check can say where it sees nothing else.
func tryWrite(ctx context.Context, x *examination) (works string, err error) {
	err = pgx.BeginFunc(ctx, x.pool, func(tx pgx.Tx) error {
		// Rows of 1,000 bytes are neither compressed nor moved out of the table. A temporary table
		// is in the database's own tablespace unless temp_tablespaces names others.
		_, err := tx.Exec(ctx, `
			SET LOCAL temp_tablespaces = '';
			CREATE TEMPORARY TABLE ledgerfeed_doctor ON COMMIT DROP AS SELECT n::char(1000) AS filler FROM generate_series(1, 1024) AS n`)
		return err //nolint:wrapcheck // judgeWrite reads it
	})
	return judgeWrite(err)
}

// errDiskFull says that the server cannot write.
var errDiskFull = errors.New("the server's disk is full")

// judgeWrite takes how tryWrite ended.
func judgeWrite(err error) (works string, _ error) {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return "the server has just written 1 MiB; how much more is free", nil
	case ok && refused.Code == "53100":
		return "", fmt.Errorf("%w: %s", errDiskFull, refused.Message)
	case ok: // no right to make temporary tables, or only reads
		return "a write was not tried (" + refused.Message + "); whether space is free", nil
	}
	return "", fmt.Errorf("cannot try a write: %w", err)
}

// checkFreeSpace tries a write, and looks at the file systems of the data directory if they are of
// this machine.
func checkFreeSpace(ctx context.Context, x *examination) ([]Finding, error) {
	works, err := tryWrite(ctx, x)
	if errors.Is(err, errDiskFull) {
		return []Finding{{Level: Error, Text: err.Error(), Do: addSpace}}, nil
	}
	if err != nil {
		return nil, err
	}
	dir, backend, err := dataDirectory(ctx, x)
	if err != nil {
		return nil, err
	}
	if dir == "" || !ofThisMachine(backend) {
		return ok("%s cannot be seen from here, because the server is on another machine or the role may not read data_directory: watch the disks of its data, pg_wal and tablespaces there", works), nil
	}
	g, _, err := readGrowth(ctx, x)
	if err != nil {
		return nil, err
	}
	var walSize int64
	if err := x.pool.QueryRow(ctx, `SELECT pg_size_bytes(current_setting('max_wal_size'))`).Scan(&walSize); err != nil {
		return nil, fmt.Errorf("cannot read max_wal_size: %w", err)
	}
	var list []Finding
	for _, path := range []string{dir, filepath.Join(dir, "pg_wal")} {
		free, err := datadir.Free(path)
		switch {
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported):
			continue // pg_wal of another account, or a directory of another container
		case err != nil:
			return nil, fmt.Errorf("cannot read the free space of %s: %w", path, err)
		}
		list = append(list, judgeFree(path, free, g.perDay, walSize))
	}
	switch {
	case len(list) == 0:
		return ok("%s cannot be seen from here, because %s is not of this machine: watch the disks of the server's data, pg_wal and tablespaces there", works, dir), nil
	case len(list) == 2 && list[1].Level == list[0].Level:
		list = list[:1]
	}
	return list, nil
}

// Free space must last for so many days of growth.
const (
	soonFull   = 30
	nearlyFull = 3

	farAway = 1000 // beyond, days say nothing
)

const addSpace = "add space, or remove what is not the database's; a server without space stops, and nothing is lost (docs/operations/sizing.md)"

// judgeFree says whether the free bytes of a directory are enough for a growth a day,
// and for the write-ahead log between two checkpoints.
func judgeFree(path string, free, perDay, walSize int64) Finding {
	f := Finding{Text: fmt.Sprintf("%s are free for %s", sizeOf(free), path)}
	lasts := max(0, free-walSize)
	switch {
	case perDay == 0:
	case lasts/perDay > farAway:
		f.Text += ", enough for years at the pace of the last day"
	default:
		f.Text += fmt.Sprintf(", enough for %s at the pace of the last one", texts.Count(lasts/perDay, "day", "days"))
	}
	f.Do = addSpace
	switch {
	case free < walSize || lasts < nearlyFull*perDay:
		f.Level = Error
	case lasts < walSize || lasts < soonFull*perDay:
		f.Level = Warning
	default:
		f.Level, f.Do = OK, ""
	}
	return f
}

// dataDirectory is where the server has its data if it may be on this machine, with the
// process id of the server's side of a connection; empty: it is not, or it may not be
// read.
func dataDirectory(ctx context.Context, x *examination) (dir string, backend int, err error) {
	err = x.pool.QueryRow(ctx, `
		SELECT CASE WHEN inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr() THEN current_setting('data_directory') ELSE '' END,
		       pg_backend_pid()`).Scan(&dir, &backend)
	if pg.Forbidden(err) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("cannot ask for the data directory: %w", err)
	}
	return dir, backend, nil
}

// ofThisMachine tells whether a process of the server is of this machine. A connection to
// this machine can be a tunnel to another. Where there is no /proc, the connection counts.
func ofThisMachine(backend int) bool {
	if _, err := os.Stat("/proc/self/comm"); err != nil {
		return true
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(backend) + "/comm")
	return err == nil && strings.HasPrefix(string(name), "postgres")
}
