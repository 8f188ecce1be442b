package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// asKilled makes this test binary a process that uses a database until it is killed.
const asKilled = "TESTKIT_TEST_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(asKilled) == "" {
		Main(m, migrateExample)
	}
	pg, err := newServer(migrateExample).started()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(pg.DataDir())
	select {}
}

// migrateExample stands for a package's migrations.
func migrateExample(ctx context.Context, url string) ([]string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "create table notes (id int primary key, body text not null)"); err != nil {
		return nil, err
	}
	// Left open on purpose: NewDatabase must cope with a migration that leaks.
	return []string{"notes"}, nil
}

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		t.Run(fmt.Sprint("clone ", i), func(t *testing.T) {
			t.Parallel()
			pool := Pool(t)
			if _, err := pool.Exec(t.Context(), "insert into notes values (1, $1)", t.Name()); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := pool.QueryRow(t.Context(), "select string_agg(body, ',') from notes").Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != t.Name() {
				t.Errorf("notes hold %q, want only this test's own %q", got, t.Name())
			}
		})
	}
}

func TestEmptyHasNoSchema(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), EmptyDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var tables int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_class where relname = 'notes'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Error("EmptyDatabase has the schema")
	}
}

func TestDropDoesNotWaitForConnections(t *testing.T) {
	t.Parallel()
	var url string
	var conn *pgx.Conn
	t.Run("leaks a connection", func(t *testing.T) {
		url = NewDatabase(t)
		var err error
		if conn, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	})
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the leaked connection still works after its test")
	}
	if again, err := pgx.Connect(t.Context(), url); err == nil {
		_ = again.Close(t.Context())
		t.Error("the database is still there after its test")
	}
}

func TestDataIsInMemory(t *testing.T) {
	t.Parallel()
	NewDatabase(t)
	want := "/dev/shm"
	if _, err := os.Stat(want); err != nil {
		want = os.TempDir()
	}
	pg, err := current.started()
	if err != nil {
		t.Fatal(err)
	}
	if got := pg.DataDir(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("data in %s, want it below %s", got, want)
	}
}

// TestKilledTestLeavesNothing: also kill -9 of a test process leaves neither a
// server nor its files.
func TestKilledTestLeavesNothing(t *testing.T) {
	t.Parallel()
	c := Child(asKilled + "=1")
	out := Must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(Must(bufio.NewReader(out).ReadString('\n'))(t))
	server, _, _ := strings.Cut(string(Must(os.ReadFile(filepath.Join(dir, "pgdata", "postmaster.pid")))(t)), "\n")
	pid := Must(strconv.Atoi(server))(t)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	Eventually(t, func() error {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there (%w)", dir, err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the server, process %d, is still there (%w)", pid, err)
		}
		return nil
	})
}
