package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// asProgram makes this test binary the program itself, so that a test can kill it.
const asProgram = "LEDGERFEED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testkit.MainAs(m, migrations.Up, migrations.ApplyGrants)
}

// TestSyncKilledAtAnyMoment: however often sync is killed during changes, the copy goes on from where
// it was, and ends as the API is.
func TestSyncKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "copy.db"), "PostgreSQL": testkit.EmptyDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := readapitest.New(t)
			kills := testkit.Scale(12, 200)
			drafts := readapitest.History(t, 5, 100+40*kills)
			s.Grow(drafts[:100]...)
			_, key := s.Key(access.AllPermissions()...)
			sync := func(args ...string) (*exec.Cmd, *testkit.Buffer) {
				c, said := testkit.Child(asProgram+"=1", "LEDGERFEED_KEY="+key), &testkit.Buffer{}
				c.Args = append(c.Args, append([]string{"sync", "--url", s.Address, "--to", to}, args...)...)
				c.Stdout, c.Stderr = said, said
				return c, said
			}
			random := rand.New(rand.NewPCG(7, uint64(len(to))))
			rest := slices.Chunk(drafts[100:], 40)
			for part := range rest {
				running, _ := sync()
				if err := running.Start(); err != nil {
					t.Fatal(err)
				}
				late, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(700))*time.Millisecond)
				s.Grow(part...)
				<-late.Done()
				cancel()
				if err := running.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = running.Wait()
			}
			last, said := sync("--once", "--check")
			if err := last.Run(); err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// TestAgent: the program speaks the Model Context Protocol on its standard streams, and ends when its
// input does and when it is told to.
func TestAgent(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_1","name":"Summit Clinic"}`))
	_, key := s.Key(access.AllPermissions()...)
	start := func() (*exec.Cmd, *mcp.ClientSession, *testkit.Buffer) {
		c, said := testkit.Child(asProgram+"=1", "LEDGERFEED_KEY="+key), &testkit.Buffer{}
		c.Args = append(c.Args, "mcp", "--url", s.Address)
		c.Stderr = said
		agent := mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, nil)
		session, err := agent.Connect(t.Context(), &mcp.CommandTransport{Command: c}, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return c, session, said
	}
	c, session, said := start()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_clients"})
	if err != nil || result.IsError || !strings.Contains(fmt.Sprint(result.StructuredContent), "Summit Clinic") {
		t.Errorf("%v %v", result, err)
	}
	if err := session.Close(); err != nil || c.ProcessState.ExitCode() != 0 || said.String() != "" {
		t.Errorf("at the end of its input: %v, %v\n%s", err, c.ProcessState, said)
	}
	c, session, said = start()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = session.Wait()
	_ = session.Close()
	if !strings.Contains(said.String(), "interrupted") {
		t.Errorf("interrupted: %v\n%s", c.ProcessState, said)
	}
}
