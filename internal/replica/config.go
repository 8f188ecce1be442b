package replica

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Set. Fields without a default are required.
type Config struct {
	Primary   *pgxpool.Pool // asked for the end of its write-ahead log: one short statement at a time for each replica
	Addresses []Address
	Logger    *slog.Logger

	// MaxLag is the most by which a replica that is read from may be behind. All processes
	// on a database must have the same. Default: DefaultMaxLag.
	MaxLag time.Duration

	// Metrics registers the collectors; nil: they are not registered.
	Metrics prometheus.Registerer
}

// DefaultMaxLag is four times as long as a replica is at most not looked at, and more.
const DefaultMaxLag = 2 * time.Second

// LeastMaxLag is the shortest that leaves a replica time to be looked at twice.
const LeastMaxLag = 500 * time.Millisecond
