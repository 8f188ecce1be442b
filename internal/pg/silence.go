package pg

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// answerTimeout bounds the time to open a connection, and for questions that a server answers at
// once, unless the address has a connect_timeout. A link may go on taking what is sent and deliver
// nothing: without a bound, a process that starts would wait for good.
const answerTimeout = 30 * time.Second

// dialer notices within 30 seconds that the host of a server has gone, also in the middle of a
// statement that may take as long as it likes. It is as patient as the server is with its clients:
// see silentSettings.
func dialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
}

// noticeSilence makes connections of a configuration notice that nothing answers.
func noticeSilence(cfg *pgconn.Config) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = answerTimeout
	}
	cfg.DialFunc = dialer().DialContext
}

// SilentError says that a database, or what is in front of it, took questions and did not answer them
// in time.
type SilentError struct {
	After time.Duration
	err   error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the database, or what is in front of it, takes questions and did not answer within %v: %v", e.After, e.err)
}

// Unwrap returns how the wait ended.
func (e *SilentError) Unwrap() error { return e.err }

// Within runs ask, which asks a database what it answers at once, for at most some time. The error is
// a *SilentError if that was not enough.
func Within(ctx context.Context, most time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &SilentError{most, err}
	}
	return err
}
