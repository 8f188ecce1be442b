package doctor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestSpace(t *testing.T) {
	t.Parallel()
	t.Run("size", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		log := testkit.Must(eventlog.New(eventlog.Config{Pool: p.pool, Clock: time.Now}))(t)
		for _, id := range []string{"a", "b", "c"} {
			d := testkit.Must(domain.NewDraft("acme", "invoice.reversed", []byte(`{"invoice_id":"`+id+`"}`)))(t)
			testkit.Must(log.Append(t.Context(), d))(t)
		}
		p.finds("size", OK, "with indexes; 3 entries in the last 24 hours, about ")
		p.env.Clock = func() time.Time { return time.Now().AddDate(0, 0, 2) }
		p.finds("size", OK, "; 0 entries in the last 24 hours, about 0 bytes")
	})
	t.Run("dead rows", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.finds("dead rows", OK, "no table has many")
		p.exec(`ALTER TABLE closed_period SET (autovacuum_enabled = off)`)
		p.exec(`INSERT INTO closed_period SELECT 'acme', '2026-10', n::text, n FROM generate_series(1, $1) AS n`, 2*manyDead)
		p.exec(`DELETE FROM closed_period WHERE position <= $1`, manyDead+1)
		testkit.AsPool(p.pool).Reset() // sessions report what they have done when they end, at the latest
		testkit.Eventually(t, func() error {
			const want = "closed_period has 100001 dead rows and 99999 live ones; never vacuumed"
			list, err := checkDeadRows(t.Context(), p.examination)
			if err == nil && (list[0].Level != Warning || !strings.Contains(list[0].Text, want)) {
				err = fmt.Errorf("%+v, want %q", list, want)
			}
			return err
		})
	})
	t.Run("old days", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.exec(`SELECT webhook_delivery_days(current_date, current_date - 30)`)
		p.exec(`INSERT INTO request_log SELECT 5, 'acme', now() - interval '32 days', '', '', '', 'GET', '', 200, 1, 1, 1, gen_random_uuid()`)
		p.finds("old days", OK, "are removed")
		p.exec(`CREATE TABLE webhook_delivery_20200101 PARTITION OF webhook_delivery FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-01-02 00:00Z')`)
		p.finds("old days", Warning, "1 day of deliveries is past the retention, the oldest is 20200101")
		p.exec(`INSERT INTO request_log SELECT 7, 'acme', '2026-01-02 03:04:05Z', '', '', '', 'GET', '', 200, 1, 1, 1, gen_random_uuid()`)
		p.finds("old days", Warning, "the request log has requests of 2026-01-02")
	})
	t.Run("free space", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		if list := testkit.Must(checkFreeSpace(t.Context(), p.examination))(t); !strings.Contains(list[0].Text, " free for ") && runtime.GOOS != "windows" {
			t.Errorf("%+v", list)
		}
		if err := migrations.ApplyGrants(t.Context(), p.db.URL); err != nil {
			t.Fatal(err)
		}
		p.pool = testkit.Must(pgxpool.New(t.Context(), p.db.URL+"&role="+migrations.RoleService))(t)
		t.Cleanup(testkit.AsPool(p.pool).Close)
		p.finds("free space", OK, "cannot be seen from here")
	})
	t.Run("archiving and slots", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.finds("archiving", OK, "off")
		// Views and a function that hide those of the server show it ill.
		p.exec(`CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS
			$$ SELECT CASE $1 WHEN 'archive_mode' THEN 'on' ELSE pg_catalog.current_setting($1) END $$`)
		p.exec(`CREATE VIEW pg_stat_archiver AS SELECT 9::bigint AS failed_count, '000000010000000000000007' AS last_failed_wal, now() AS last_failed_time, now() - interval '1 hour' AS last_archived_time`)
		p.exec(`CREATE VIEW pg_replication_slots AS SELECT 'gone' AS slot_name, false AS active, '0/0'::pg_lsn AS restart_lsn UNION ALL SELECT 'slow', true, '0/0'`)
		p.exec(`CREATE FUNCTION pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE sql AS $$ SELECT '2/0'::pg_lsn $$`)
		p.pool = testkit.Must(pgxpool.New(t.Context(), p.db.URL+"&search_path=public,pg_catalog"))(t)
		t.Cleanup(testkit.AsPool(p.pool).Close)
		p.finds("archiving", Error, "000000010000000000000007 of the write-ahead log cannot be archived (9 failures)")
		p.finds("replication", Warning, "nobody uses the replication slot gone, and the server keeps 8192 MiB for it")
		p.finds("replication", Warning, "the replica of the replication slot slow is 8192 MiB behind")
		p.exec(`CREATE OR REPLACE VIEW pg_stat_archiver AS SELECT 9::bigint AS failed_count, '000000010000000000000007' AS last_failed_wal, now() - interval '2 hours' AS last_failed_time, now() - interval '1 hour' AS last_archived_time`)
		p.finds("archiving", OK, "is archived")
	})
}

func TestJudgeFree(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, c := range []struct {
		free, perDay, wal int64
		level             Level
		text              string
	}{
		{100 * gib, 0, gib, OK, "100 GiB are free for /data"},
		{100 * gib, gib, gib, OK, "enough for 99 days"},
		{5000 * gib, gib, gib, OK, "enough for years"},
		{20 * gib, gib, gib, Warning, "enough for 19 days"},
		{3 * gib, 0, 2 * gib, Warning, "3.0 GiB are free"},
		{3 * gib, gib, gib, Error, "enough for 2 days"},
		{gib, 0, 2 * gib, Error, "1.0 GiB are free"},
	} {
		f := judgeFree("/data", c.free, c.perDay, c.wal)
		if f.Level != c.level || !strings.Contains(f.Text, c.text) || (f.Do == "") != (f.Level == OK) {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestSizeOf(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 10 << 20: "10 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000 TiB"} {
		if got := sizeOf(n); got != want {
			t.Errorf("sizeOf(%d) is %q, want %q", n, got, want)
		}
	}
}

// A process of this machine is not the server's because it has the number.
func TestOfThisMachine(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/comm"); err == nil && ofThisMachine(os.Getpid()) {
		t.Error("this test is taken for PostgreSQL")
	}
}

// TestJudgeWrite: a full disk is an error from every machine, and a write that is not allowed says so.
func TestJudgeWrite(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "written 1 MiB", "42501": "not tried (no)", "25006": "not tried (no)"} {
		var err error
		if code != "" {
			err = &pgconn.PgError{Code: code, Message: "no"}
		}
		if works, err := judgeWrite(err); err != nil || !strings.Contains(works, want) {
			t.Errorf("%q: %q, %v; want %q", code, works, err, want)
		}
	}
	if _, err := judgeWrite(&pgconn.PgError{Code: "53100", Message: "could not extend file"}); !errors.Is(err, errDiskFull) || err.Error() != "the server's disk is full: could not extend file" {
		t.Error(err)
	}
	if _, err := judgeWrite(errors.New("broken pipe")); err == nil || errors.Is(err, errDiskFull) {
		t.Error(err)
	}
}
