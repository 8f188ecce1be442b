//go:build full

package witness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// Variables for a process that is a witness, and is killed.
const (
	folderVariable = "WITNESS_TEST_FOLDER"
	keyVariable    = "WITNESS_TEST_KEY"
	logsVariable   = "WITNESS_TEST_LOGS"
)

func TestMain(m *testing.M) {
	if os.Getenv(folderVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serveUntilKilled(context.Background(), os.Getenv(folderVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveUntilKilled is a witness as the command is one. Its address is in a file.
func serveUntilKilled(ctx context.Context, folder string) error {
	key, err := witness.ParseKey(os.Getenv(keyVariable))
	if err != nil {
		return err
	}
	logs, err := witness.ParseLogs(os.Getenv(logsVariable))
	if err != nil {
		return err
	}
	dir, err := datadir.Make(filepath.Join(folder, "state"))
	if err != nil {
		return err
	}
	unlock, err := witness.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := witness.New(witness.Config{Dir: dir, Key: key, Logs: logs, Clock: time.Now, Logger: testkit.Discard()})
	if err != nil {
		return err
	}
	bound, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := dir.WriteFile("address", []byte(bound.Addr().String())); err != nil {
		return err
	}
	return w.Serve(ctx, bound)
}

// TestKilledAtAnyMoment: a witness that is killed again and again knows, when it runs again,
// every tree that it has cosigned, and cosigns no other.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	f := newFixture(t) // for its keys
	folder := t.TempDir()
	child := func() *exec.Cmd {
		return testkit.Child(folderVariable+"="+folder, keyVariable+"="+f.cfg.Key.Text(), logsVariable+"="+strings.Join(testkit.Must(f.keys.Verifiers(origin))(t), "\n"))
	}
	const kills = 12
	feed := followertest.Some(2000)
	fork := feed.With(0, followertest.Event(0, "x"))
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	post := func(address string, body []byte) (code int, text string, err error) {
		resp, err := client.Post("http://"+address+"/add-checkpoint", "text/plain", bytes.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(got), err
	}
	known, asked := 0, 0 // known was cosigned; asked may have been, too
	for kill := range kills {
		if err := os.Remove(filepath.Join(folder, "state", "address")); err != nil && kill > 0 {
			t.Fatal(err)
		}
		c := child()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var address string
		testkit.Eventually(t, func() error {
			text, err := os.ReadFile(filepath.Join(folder, "state", "address"))
			address = string(text)
			return err
		})
		code, text, err := post(address, request(asked+1, "", sign(t, f.keys, feed, asked+2)))
		if err != nil || code != http.StatusConflict || text != fmt.Sprintf("%d\n", known) && text != fmt.Sprintf("%d\n", asked) {
			t.Fatalf("after %d kills: %d %q, %v: want 409 and %d or %d", kill, code, text, err, known, asked)
		}
		if text == fmt.Sprintf("%d\n", asked) {
			known = asked
		}
		if known > 0 {
			if code, text, err := post(address, request(known, proof(t, fork, known, known+1), sign(t, f.keys, fork, known+1))); err != nil || code != http.StatusUnprocessableEntity {
				t.Fatalf("after %d kills a fork is answered %d %q, %v", kill, code, text, err)
			}
		}
		// It is killed while it answers: at another moment each time.
		stop := time.AfterFunc(time.Duration(1+5*kill)*time.Millisecond, func() { _ = c.Process.Kill() })
		for {
			asked = known + 1
			code, text, err := post(address, request(known, proof(t, feed, known, asked), sign(t, f.keys, feed, asked)))
			if err != nil {
				break
			}
			if code != http.StatusOK {
				t.Fatalf("size %d: %d %s", asked, code, text)
			}
			known = asked
		}
		stop.Stop()
		_ = c.Process.Kill()
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("a witness ended by itself: %v", err)
		}
	}
	if known < 3 {
		t.Errorf("%d trees were cosigned: too few to say anything", known)
	}
}

// TestOneProcess: a second witness with the same state does not run.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	dir := testkit.Must(datadir.Make(filepath.Join(t.TempDir(), "state")))(t)
	defer func() { _ = dir.Close() }()
	unlock := testkit.Must(witness.Lock(dir))(t)
	if _, err := witness.Lock(dir); err == nil || !strings.Contains(err.Error(), "another witness runs with the state") {
		t.Error(err)
	}
	unlock()
	testkit.Must(witness.Lock(dir))(t)()
}
