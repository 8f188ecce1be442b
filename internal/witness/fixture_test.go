package witness_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

const (
	origin = "api.example.com/acme/events"
	name   = "witness.example.com/w1"
)

// newKeys makes the keys of a log.
func newKeys(t testing.TB) *signingkey.Keys {
	t.Helper()
	return testkit.Must(signingkey.Parse(testkit.Must(signingkey.New(rand.Reader))(t)))(t)
}

// sign signs the checkpoint of a feed's first n events.
func sign(t testing.TB, keys *signingkey.Keys, feed *followertest.Feed, n int) string {
	t.Helper()
	return string(testkit.Must(keys.Sign(origin, feed.Checkpoint(origin, n)))(t))
}

// proof are the lines that prove that a feed's first n events extend its first old ones.
func proof(t testing.TB, feed *followertest.Feed, old, n int) string {
	t.Helper()
	if old == 0 || old > n {
		return ""
	}
	var b strings.Builder
	for _, hash := range testkit.Must(tlog.ProveTree(int64(n), int64(old), feed))(t) {
		b.WriteString(hash.String() + "\n")
	}
	return b.String()
}

func request(old int, lines, note string) []byte {
	return fmt.Appendf(nil, "old %d\n%s\n%s", old, lines, note)
}

// memory is files that lie in memory. They can fail.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	fail  func(name string) (happens bool, err error) // of writing; nil: it works
}

func newMemory() *memory { return &memory{files: map[string][]byte{}} }

func (m *memory) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(text), nil
}

func (m *memory) WriteFile(name string, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	happens, err := true, error(nil)
	if m.fail != nil {
		happens, err = m.fail(name)
	}
	if happens {
		m.files[name] = bytes.Clone(text)
	}
	return err
}

// fixture is a witness of one log.
type fixture struct {
	t     testing.TB
	keys  *signingkey.Keys
	cfg   witness.Config
	clock *testkit.Clock
	log   bytes.Buffer
	files *memory
	*witness.Witness
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, keys: newKeys(t), clock: testkit.NewClock(time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)), files: newMemory()}
	f.cfg = witness.Config{
		Key:    testkit.Must(witness.NewKey(rand.Reader, name))(t),
		Logs:   testkit.Must(witness.ParseLogs(strings.Join(testkit.Must(f.keys.Verifiers(origin))(t), "\n")))(t),
		Clock:  f.clock.Now,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	f.restart()
	return f
}

// restart makes the witness again on the same files.
func (f *fixture) restart() {
	f.t.Helper()
	f.Witness = testkit.Must(witness.NewOn(f.cfg, f.files))(f.t)
}

// add submits a feed's first n events, with the proof from the first old ones.
func (f *fixture) add(feed *followertest.Feed, old, n int) (line string, err error) {
	f.t.Helper()
	return f.AddCheckpoint(context.Background(), request(old, proof(f.t, feed, old, n), sign(f.t, f.keys, feed, n)))
}

// mustAdd is add of what has to be cosigned.
func (f *fixture) mustAdd(feed *followertest.Feed, old, n int) string {
	f.t.Helper()
	return testkit.Must(f.add(feed, old, n))(f.t)
}

// status is the status that an error stands for; 0: none.
func status(err error) int {
	var refused *witness.RefusedError
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}
