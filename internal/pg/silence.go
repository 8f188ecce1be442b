package pg

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// answerTimeout limits how long opening a connection may take, and how long a question may take that
// a server answers at once. The address may have another connect_timeout. A link may go on taking
// what is sent and deliver nothing: without a limit, a process that starts would wait for good.
const answerTimeout = 30 * time.Second

// NoticeSilence makes connections of a configuration notice that nothing answers. While a statement
// runs that has arrived, which may take as long as it likes, they notice within 30 seconds that the
// server's host has gone.
func NoticeSilence(cfg *pgconn.Config) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = answerTimeout
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	cfg.DialFunc = dialer.DialContext
}

// SilentSettings make the server notice that a client has gone without closing its
// connection, because its machine or the network between failed. Until the server
// does, the client's transaction stays open and its row locks with it: those of a
// projector hold up whole workspaces. A network that still acknowledges what it does
// not deliver is noticed by the first setting alone: idle is how long a transaction may wait for
// its client.
func SilentSettings(idle time.Duration) map[string]string {
	return map[string]string{
		"idle_in_transaction_session_timeout": Milliseconds(idle),
		"tcp_user_timeout":                    "30s",
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "4",
	}
}

// SilentError says that a database, or something in front of it, accepted what was sent and did not
// answer in time.
type SilentError struct {
	After time.Duration
	err   error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the database, or something in front of it, accepted what was sent and did not answer within %v: %v", e.After, e.err)
}

// Unwrap returns how the wait ended.
func (e *SilentError) Unwrap() error { return e.err }

// Within calls ask with a context that ends after most. It returns a *SilentError if that limit, and
// not ctx, ended the call.
func Within(ctx context.Context, most time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &SilentError{most, err}
	}
	return err
}
