//go:build unix

package main

import (
	"regexp"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// TestAnOutageIsFewLines: while the database is away, whatever is tried again and again says
// once that it fails, and once that it works again.
func TestAnOutageIsFewLines(t *testing.T) {
	t.Parallel()
	server := pgserver.NewHost(t).Server("outage", "fsync=off")
	server.Initialize()
	server.Begin()
	server.Execute("postgres", "CREATE DATABASE ledgerfeed")
	serving := startProcess(t, command(t, server.URL(pgserver.Administrator, "ledgerfeed"), "serve"))
	serving.await("for=console")
	succeed(t, server.URL(pgserver.Administrator, "ledgerfeed"), "workspace", "create", "--id", "acme")
	server.Stop()
	// It is the last to fail. What is tried each second has failed several times by then.
	serving.await("cannot renew the lease for delivering")
	server.Begin()
	for _, working := range []string{
		"sweeps for new entries work again\" consumer=read_models", "sweeps for new entries work again\" consumer=event_trees", "webhooks with something to deliver are found again",
		"the lease for delivering is renewed again", "changes of API keys are seen again", "request counts are exchanged again",
	} {
		serving.await(working)
	}
	times := map[string]int{}
	for _, line := range regexp.MustCompile(`level=(?:WARN|ERROR) msg=("[^"]*")(?: consumer=\w+)?`).FindAllString(serving.log.String(), -1) {
		times[line]++
	}
	for line, n := range times {
		if n > 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	if len(times) < 6 {
		t.Errorf("only %d messages in:\n%s", len(times), serving.log)
	}
}
