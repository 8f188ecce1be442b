//go:build unix

package localpg

import (
	"log/slog"
	"time"
)

// setup is what a server is started or joined with.
type setup struct {
	cfg   Config
	opts  options
	log   *slog.Logger
	place place
}

// options are the parts of the surroundings that tests replace.
type options struct {
	search   Search
	roots    rootRules
	settings map[string]string // of the server, beside this package's own
	joined   time.Duration     // how long an owner that closes waits for programs that have joined
}

func defaultOptions() options {
	return options{search: DefaultSearch(), roots: defaultRootRules(), joined: joinedTimeout}
}

// joinedTimeout is how long an owner that closes waits for programs that have
// joined. It is meant for work under way, not for a service to end by itself, and
// stays below what service managers allow for a stop.
const joinedTimeout = 20 * time.Second
