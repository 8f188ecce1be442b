package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/rowcheck"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// However appending and projecting are killed, the read models are those of the
// log up to their checkpoint, and the log has what an append has acknowledged.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	rounds := testkit.Scale(10, 200)
	files := chunks(t, 3, rounds)
	check := newFoldCheck(t, url)
	sessions := testkit.OpenPool(t, url, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	next := 0 // the file that is not yet known to be in the log
	for round := range rounds {
		serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
		appending := startProcess(t, command(t, url+killedSession, "append", "--json", files[next]))
		if round%2 == 0 {
			awaitSession(t, sessions, appending)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(220))*time.Millisecond)
		if rng.IntN(3) == 0 {
			// Let the append end: what it acknowledged must be there.
			<-appending.done
			if code := appending.cmd.ProcessState.ExitCode(); code != cli.ExitDone {
				t.Fatalf("round %d: append ended with %d:\n%s", round, code, appending.log)
			}
			check.holds(files[next])
		}
		<-late.Done()
		cancel()
		appending.kill()
		if appending.cmd.ProcessState.ExitCode() == cli.ExitDone {
			next++
		}
		serving.kill()
		check.readModels(round)
	}
	// Appended again, the same files complete the log, with nothing twice.
	for _, f := range files[next:] {
		succeed(t, url, "append", f)
	}
	serving := startProcess(t, command(t, url, "serve", "--roles", "project", "--no-migrate"))
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	if code := serving.stop(); code != cli.ExitDone {
		t.Fatalf("serve ended with %d:\n%s", code, serving.log)
	}
	check.readModels(rounds)
	for _, f := range files {
		check.holds(f)
	}
}

// killedSession names the sessions of a program that is killed, for awaitSession.
const killedSession = "&application_name=killed"

// awaitSession waits until a program with killedSession works on the database, so that it is
// killed at its work, however long this machine takes to start it.
func awaitSession(t *testing.T, pool testkit.DB, p *process) {
	t.Helper()
	testkit.Eventually(t, func() error {
		select {
		case <-p.done:
			return nil
		default:
		}
		var sessions int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'killed'`).Scan(&sessions)
		if err == nil && sessions == 0 {
			err = errors.New("the program has no session of the database yet")
		}
		return err
	})
}

// chunks writes the streams of some workspaces into files, in each the next
// entries of every workspace.
func chunks(t *testing.T, workspaces, files int) (names []string) {
	t.Helper()
	const each = 12 // entries of a workspace in a file
	end := time.Now().UTC().Truncate(24 * time.Hour)
	var streams []*scenario.Generator
	for w := range workspaces {
		g := scenario.New(scenario.Config{
			WorkspaceID: fmt.Sprintf("agency-%d", w), Seed: uint64(w + 1),
			Start: end.AddDate(0, -3, 0), End: end, Entries: each * files,
		})
		streams = append(streams, g)
	}
	dir := t.TempDir()
	for f := range files {
		var text []byte
		for range each {
			for _, g := range streams {
				if line, ok := g.Next(); ok {
					text = line.AppendNDJSON(text)
				}
			}
		}
		name := filepath.Join(dir, fmt.Sprintf("%03d.ndjson", f))
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// foldCheck follows the log in memory and compares the read tables with it.
type foldCheck struct {
	t      *testing.T
	conn   *pgx.Conn
	states map[string]*domain.State
}

func newFoldCheck(t *testing.T, url string) *foldCheck {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return &foldCheck{t: t, conn: conn, states: map[string]*domain.State{}}
}

// readModels compares, in one snapshot, every workspace's read tables with the
// fold of its log up to its checkpoint.
func (c *foldCheck) readModels(round int) {
	c.t.Helper()
	err := pgx.BeginTxFunc(c.t.Context(), c.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		rows, err := tx.Query(c.t.Context(), `SELECT workspace_id, position FROM log_checkpoint WHERE consumer = 'read_models'`)
		if err != nil {
			return err
		}
		type checkpoint struct {
			WorkspaceID string
			Position    int64
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[checkpoint])
		if err != nil {
			return err
		}
		for _, p := range list {
			state, err := c.fold(tx, p.WorkspaceID, p.Position)
			if err != nil {
				return err
			}
			stored, err := rowcheck.Stored(c.t.Context(), tx, p.WorkspaceID)
			if err != nil {
				return err
			}
			for _, line := range rowcheck.Diff(stored, rowcheck.Folded(state), 10) {
				c.t.Errorf("after kill %d, workspace %s at position %d: %s", round, p.WorkspaceID, p.Position, line)
			}
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *foldCheck) fold(tx pgx.Tx, workspaceID string, through int64) (*domain.State, error) {
	state := c.states[workspaceID]
	if state == nil {
		state = domain.NewState()
		c.states[workspaceID] = state
	}
	rows, err := tx.Query(c.t.Context(), `
		SELECT e.position, e.id, e.type, e.created_at, e.data::text, coalesce(d.value, '')
		  FROM event_log e LEFT JOIN log_detached d USING (workspace_id, position)
		 WHERE e.workspace_id = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position`, workspaceID, state.Position, through)
	if err != nil {
		return nil, err
	}
	e := domain.Entry{WorkspaceID: workspaceID}
	_, err = pgx.ForEachRow(rows, []any{&e.Position, &e.ID, &e.Type, &e.CreatedAt, &e.Data, &e.Value}, func() error {
		if e.Position != state.Position+1 {
			return fmt.Errorf("position %d follows %d", e.Position, state.Position)
		}
		next := domain.Entry{WorkspaceID: workspaceID, Position: e.Position, ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt, Data: e.Data, Value: e.Value}
		state.Apply(&next)
		return nil
	})
	return state, err
}

// holds checks that the log has every entry of a file.
func (c *foldCheck) holds(file string) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		d, err := domain.DecodeDraft(line)
		if err != nil {
			c.t.Fatal(err)
		}
		e := domain.Entry{Type: d.Type}
		err = c.conn.QueryRow(c.t.Context(), `
			SELECT e.data::text, coalesce(d.value, '') FROM event_log e LEFT JOIN log_detached d USING (workspace_id, position)
			 WHERE e.workspace_id = $1 AND e.id = $2`, d.WorkspaceID, d.ID).Scan(&e.Data, &e.Value)
		if err != nil || e.Whole() != d.Data {
			c.t.Fatalf("the acknowledged entry %s of %s: %v, %s", d.ID, d.WorkspaceID, err, e.Whole())
		}
	}
}
