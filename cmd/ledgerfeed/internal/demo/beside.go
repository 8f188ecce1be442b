package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

const (
	// portStep is added to a port that is taken, so that the ports of a demo stay together.
	portStep = 10
	// portTries bounds how often.
	portTries = 20
)

// avoidTakenPorts chooses other ports where the default ones are taken, by another demo for
// example, and says so. A port that somebody chose stays.
func avoidTakenPorts(ctx context.Context, env *operate.Env) error {
	for _, s := range env.InForce() {
		if s.From != settings.FromDefault || !strings.HasSuffix(s.Variable, "_LISTEN") {
			continue
		}
		address := freeAddress(ctx, s.Value)
		if address == s.Value {
			continue
		}
		if err := operate.Set(env, s.Variable, address); err != nil {
			return err
		}
		fmt.Fprintf(env.ErrOut, "%s is taken: this demo has %s=%s\n", s.Value, s.Variable, address)
	}
	return nil
}

// freeAddress is the first address from a given one on that nothing listens at; the given
// one itself when there is none within reach, so that listening at it says what is wrong.
func freeAddress(ctx context.Context, address string) string {
	host, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		return address
	}
	for i := range portTries {
		candidate := net.JoinHostPort(host, strconv.Itoa(port+i*portStep))
		if l, err := new(net.ListenConfig).Listen(ctx, "tcp", candidate); err == nil {
			_ = l.Close()
			return candidate
		}
	}
	return address
}

// demoLock is the advisory lock of the demo that runs on a database.
const demoLock = 0x64656d6f

// onlyDemo refuses to run beside another demo on the same database: both would append the
// same ids, and point the same webhook at their receivers. The caller calls done at the end.
func onlyDemo(ctx context.Context, deps *operate.Deps) (done func(), err error) {
	if deps.Pooled {
		return nil, errors.New("the demo holds a lock of its session, which a pooler in transaction mode does not keep: run it without LEDGERFEED_POOLER, on the address of PostgreSQL itself")
	}
	conn, err := deps.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the database: %w", err)
	}
	var locked bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", demoLock).Scan(&locked); err != nil {
		conn.Release()
		return nil, fmt.Errorf("cannot find out whether another demo runs on this database: %w", err)
	}
	if locked {
		return conn.Release, nil
	}
	conn.Release()
	if dir := deps.DataDir(""); dir != "" {
		return nil, fmt.Errorf("a demo is running with its data in %s already: --data-dir DIRECTORY makes another one beside it", dir)
	}
	return nil, errors.New("a demo is running on the database at DATABASE_URL already")
}
