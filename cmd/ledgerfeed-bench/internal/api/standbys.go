package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// standbyTimeout is how long standbys may take to replay what a benchmark has made.
const standbyTimeout = 5 * time.Minute

var errNoStandby = errors.New("the standbys cannot be read from")

// OpenStandbys follows the standbys that the options name, until ctx ends, and waits until
// they are read from; nil: none are named.
func OpenStandbys(ctx context.Context, db *measure.Database) (*readapi.Copy, error) {
	if db.ReadURL == "" {
		return nil, nil
	}
	url, err := db.At(db.ReadURL)
	if err != nil {
		return nil, err
	}
	from, err := standby.New(standby.Config{URL: url, Primary: db.Pool, MaxLag: 2 * time.Second, Logger: measure.NoLogger()})
	if err != nil {
		return nil, err
	}
	go func() { _ = from.Run(ctx) }()
	pages, err := from.Open(ctx, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, pages.Close)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(standbyTimeout); !from.State().Used; <-tick.C {
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, fmt.Errorf("%w: %s", errNoStandby, from.State().Problem)
		}
	}
	return &readapi.Copy{Pool: pages, Usable: from.Usable, Alive: from.Alive}, nil
}
