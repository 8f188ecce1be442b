package migrations_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// files are the names of the migrations, in order.
func files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if regexp.MustCompile(`^\d.*\.sql$`).MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func fit(t *testing.T, url string) migrations.Fitness {
	t.Helper()
	f, err := migrations.Fit(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNames(t *testing.T) {
	t.Parallel()
	form, numbers := regexp.MustCompile(`^(\d{5})_[a-z0-9_]+\.sql$`), map[string]string{}
	for _, name := range files(t) {
		parts := form.FindStringSubmatch(name)
		if parts == nil {
			t.Errorf("%s is not named NNNNN_what_it_is_about.sql", name)
			continue
		}
		if other := numbers[parts[1]]; other != "" {
			t.Errorf("%s and %s have the same number", other, name)
		}
		numbers[parts[1]] = name
	}
}

// TestUpFromNothing applies every file once, and a second run none.
func TestUpFromNothing(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	if f := fit(t, url); f != migrations.Absent {
		t.Errorf("an empty database is %v, want Absent", f)
	}
	applied, err := migrations.Up(t.Context(), url)
	if err != nil || !slices.Equal(applied, files(t)) {
		t.Fatalf("applied %v, %v; want %v", applied, err, files(t))
	}
	if f := fit(t, url); f != migrations.Current {
		t.Errorf("a migrated database is %v, want Current", f)
	}
	if applied, err := migrations.Up(t.Context(), url); err != nil || len(applied) != 0 {
		t.Errorf("the second run applied %v, %v", applied, err)
	}
}

// TestUpSideBySide starts several programs at once: each file is applied by
// one of them, and all come back to a schema that is whole.
func TestUpSideBySide(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		applied []string
	)
	for range 4 {
		wait.Go(func() {
			names, err := migrations.Up(t.Context(), url)
			f, fitErr := migrations.Fit(t.Context(), url)
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, names...)
			if err != nil || fitErr != nil || f != migrations.Current {
				t.Errorf("a starter came back with %v, to %v (%v)", err, f, fitErr)
			}
		})
	}
	wait.Wait()
	slices.Sort(applied)
	if !slices.Equal(applied, files(t)) {
		t.Errorf("applied %v, want each of %v once", applied, files(t))
	}
}

// noWayBack are the files after which an older version could not read what is stored: their Down
// refuses, and changes nothing.
var noWayBack = []string{"00002_detached.sql"}

// TestDownTakesBackWhatUpMade goes up file by file, and from each back and up
// again: the schema is the same to the letter.
func TestDownTakesBackWhatUpMade(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("."), goose.WithExcludeNames([]string{dumpFile}))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	step := func(what string, do func(context.Context) (*goose.MigrationResult, error)) string {
		t.Helper()
		r, err := do(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if r.Error != nil {
			t.Fatalf("%s: %v", what, r.Error)
		}
		pool.Reset() // its connections know tables that are gone
		return dump(t, pool)
	}
	before := dump(t, pool)
	for _, name := range files(t) {
		after := step(name+" up", provider.UpByOne)
		if after == before {
			t.Errorf("%s changes nothing", name)
		}
		if slices.Contains(noWayBack, name) {
			if _, err := provider.Down(t.Context()); err == nil || dump(t, pool) != after {
				t.Errorf("%s down: %v", name, err)
			}
			before = after
			continue
		}
		if back := step(name+" down", provider.Down); back != before {
			t.Errorf("%s is not taken back whole: %s", name, firstDifference(back, before))
		}
		if again := step(name+" up again", provider.UpByOne); again != after {
			t.Errorf("%s makes another schema the second time: %s", name, firstDifference(again, after))
		}
		if f := fit(t, url); (f == migrations.Current) != (name == slices.Max(files(t))) {
			t.Errorf("after %s the schema is %v", name, f)
		}
		before = after
	}
}

// TestMissing lists what an older schema lacks, with its SQL, and nothing of a
// current one.
func TestMissing(t *testing.T) {
	t.Parallel()
	missing := func(url string) (names []string) {
		t.Helper()
		for _, f := range testkit.Must(migrations.Missing(t.Context(), url))(t) {
			names = append(names, f.Name)
			if !strings.Contains(f.SQL, "-- +goose Up") || strings.Contains(f.SQL, "-- +goose Down") {
				t.Errorf("%s is not what applies it:\n%s", f.Name, f.SQL)
			}
		}
		return names
	}
	if got := missing(testkit.EmptyDatabase(t)); !slices.Equal(got, files(t)) {
		t.Errorf("an empty database lacks %v", got)
	}
	if got := missing(testkit.NewDatabase(t)); len(got) > 0 {
		t.Errorf("a migrated database lacks %v", got)
	}
}

// TestUpWaitsForNobodyLong: while another transaction reads a table that a migration
// changes, the migration does not make others wait who read it, too, and it is applied
// when that transaction has ended.
func TestUpWaitsForNobodyLong(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	pool := testkit.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	next := fstest.MapFS{"09999_next.sql": {Data: []byte("-- +goose Up\nALTER TABLE webhook_instance ADD COLUMN next text;\n")}}
	reading := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = reading.Rollback(t.Context()) }()
	if _, err := reading.Exec(t.Context(), `LOCK TABLE webhook_instance IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var applied []string
	go func() {
		var err error
		applied, err = migrations.UpTo(t.Context(), url, next)
		ended <- err
	}()
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, pool, 1) })
	var there bool
	if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM webhook_instance)`).Scan(&there); err != nil {
		t.Errorf("another reader: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended while the table was locked: %v", err)
	default:
	}
	if err := reading.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || !slices.Equal(applied, []string{"09999_next.sql"}) {
		t.Errorf("applied %v, %v", applied, err)
	}
}

// TestNewerSchema: a program finds out that a newer one was here.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if f := fit(t, url); f != migrations.Newer {
		t.Errorf("the schema is %v, want Newer", f)
	}
}
