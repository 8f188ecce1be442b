package eventlog

import (
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Way is one of the ways by which a process hears of the changes of others.
type Way struct {
	By        string `json:"by"` // WayListen
	Connected bool   `json:"connected"`
	Reason    string `json:"reason,omitempty"` // why it is not
}

// WayListen is PostgreSQL's LISTEN.
const WayListen = "postgresql"

var errNotYet = errors.New("not connected yet")

// way is the state of a Way.
type way struct {
	mu        sync.Mutex
	connected bool
	reason    error
}

// set sets the reason for which the way is not connected; nil: it is.
func (w *way) set(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected, w.reason = reason == nil, reason
}

func (w *way) state(by string) Way {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.connected:
		return Way{By: by, Connected: true}
	case w.reason == nil:
		return Way{By: by, Reason: errNotYet.Error()}
	}
	return Way{By: by, Reason: w.reason.Error()}
}

// listener is a connection on which notifications are received.
type listener struct {
	way
	cfg *pgx.ConnConfig
}
