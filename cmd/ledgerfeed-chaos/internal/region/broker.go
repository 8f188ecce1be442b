//go:build linux

// Package region is a second installation that follows a first one: messages of a
// producer's outbox are ingested into the log of the first, relayed to a message broker, and
// ingested into the log of the second. It has a PostgreSQL and a broker of its own, so that
// a log that goes back to an earlier state, as faults elsewhere make it, is not part of it.
package region

import (
	"fmt"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// The variables that make a process of this program the broker.
const (
	variablePort = "LEDGERFEED_CHAOS_BROKER_PORT"
	variableDir  = "LEDGERFEED_CHAOS_BROKER_DIR"
)

// ServeBroker runs NATS with JetStream until the process is killed, if this process was
// started to be that, and reports whether it was.
func ServeBroker() (was bool, err error) {
	text, was := os.LookupEnv(variablePort)
	if !was {
		return false, nil
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return true, fmt.Errorf("read %s: %w", variablePort, err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: os.Getenv(variableDir), NoLog: true})
	if err != nil {
		return true, fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	s.WaitForShutdown()
	return true, nil
}
