// Package relaybench measures the relay to a message broker, and what is ingested.
package relaybench

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout is how long the broker may take to start.
const startTimeout = 10 * time.Second

// startServer starts a NATS server with JetStream on this machine, in this process.
func startServer() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "ledgerfeed-bench-nats-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for NATS: %w", err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make a NATS server: %w", err), os.RemoveAll(dir))
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir) // a directory for temporary files
	}
	if !s.ReadyForConnections(startTimeout) {
		stop()
		return "", nil, errors.New("the NATS server did not start")
	}
	return s.ClientURL(), stop, nil
}
