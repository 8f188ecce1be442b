package cosigning

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

const (
	// maxWaiting bounds the workspaces that wait for one witness; the sweep finds others.
	maxWaiting = 10_000
	// batchSize is of how many workspaces trees are read at once.
	batchSize = 100
	// underWay bounds the requests to a witness at a time.
	underWay = 8
	// sweepWorkspaces is of how many workspaces one statement of a sweep reads the trees.
	sweepWorkspaces = 500
	// maxRefused bounds the trees of which it is known that a witness refuses them.
	maxRefused = 1000
	// agent is the User-Agent.
	agent = "ledgerfeed/1"
)

// Config of a Gatherer. Times have defaults.
type Config struct {
	Pool      *pgxpool.Pool
	Witnesses witness.List
	Keys      *signingkey.Keys
	Host      string // with which the names of trees begin
	Clock     func() time.Time
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none
	HTTP      http.RoundTripper

	Gather  time.Duration // between two rounds; default 100 ms
	Timeout time.Duration // of a tree with a witness, several requests; default 10 s
	Sweep   time.Duration // between two statements of a sweep; default 1 s
	Rest    time.Duration // between two sweeps; default 30 s
	Again   time.Duration // between two requests about a tree that was refused and has not grown; default 10 min
	Backoff time.Duration // after the first failure, which doubles; default 1 s
	Longest time.Duration // of backoff; default 1 min
}
