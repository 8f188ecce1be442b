//go:build unix

package localpg

import (
	"log/slog"
	"time"
)

// setup is what it takes to start or join a server.
type setup struct {
	cfg   Config
	opts  options
	log   *slog.Logger
	place place
}

// options are the parts of the environment that tests replace.
type options struct {
	search   Search
	roots    rootRules
	settings map[string]string // of the server; they override this package's own
	joined   time.Duration     // how long a closing owner waits for joined programs
}

func defaultOptions() options {
	return options{search: DefaultSearch(), roots: defaultRootRules(), joined: joinedTimeout}
}

// joinedTimeout is how long a closing owner waits for joined programs. It lets work in flight
// finish, but does not wait for a service to end, and is shorter than the stop timeout of service
// managers.
const joinedTimeout = 20 * time.Second
