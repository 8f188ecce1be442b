package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Look follows the replicas until each is read from, or the time is over in which one that
// can be would be, and returns how they are. It is for commands, which serve nothing.
func Look(ctx context.Context, cfg Config) ([]State, error) {
	set, err := New(cfg)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, set.cfg.MaxLag+2*askTimeout)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = set.Run(limited)
	}()
	for {
		change := set.changes()
		states := set.States()
		if AllUsed(states) {
			cancel()
			<-ended
			return states, nil
		}
		select {
		case <-change:
		case <-limited.Done():
			<-ended
			return states, context.Cause(ctx)
		}
	}
}

// AllUsed reports whether all replicas are read from.
func AllUsed(states []State) bool {
	for i := range states {
		if !states[i].Used {
			return false
		}
	}
	return true
}

// Advice is what should be set on a replica and is not.
type Advice struct {
	Feedback bool          // hot_standby_feedback is off, and statements are ended after Delay
	Delay    time.Duration // max_standby_streaming_delay; below 0: they are never ended
	Stats    bool          // the account sees too late which timeline the replica follows
}

// Advise asks a replica for its settings.
func Advise(ctx context.Context, a Address) (is Advice, err error) {
	conn, err := pg.Connect(ctx, a.URL)
	if err != nil {
		return is, fmt.Errorf("the replica %s: %s", a.Name, describe(err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var milliseconds int64
	err = conn.QueryRow(ctx, `
		SELECT current_setting('hot_standby_feedback') = 'off', (SELECT setting::bigint FROM pg_settings WHERE name = 'max_standby_streaming_delay'),
		       NOT pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&is.Feedback, &milliseconds, &is.Stats)
	if err != nil {
		return is, fmt.Errorf("the replica %s: read its settings: %s", a.Name, describe(err))
	}
	is.Delay = time.Duration(milliseconds) * time.Millisecond
	return is, nil
}
