package entrance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Config of a Set. All fields are required.
type Config struct {
	URL         string        // as DATABASE_URL
	Coordinator *pgxpool.Pool // asked where workspaces are
	Logger      *slog.Logger
}

// Set is the nodes of a cluster by which statements can come in beside the coordinator. Its
// methods may be called by any number of goroutines; those of nil are those of a Set without
// entrances.
type Set struct {
	cfg       Config
	entrances []*Entrance
	ranges    atomic.Pointer[[]shardRange]

	mu     sync.Mutex
	hashes map[string]int32 // of workspaces
}

// Entrance is a node that DATABASE_URL names beside the coordinator.
type Entrance struct {
	Name string // host:port

	mu     sync.Mutex
	group  int32 // of the node, while it answers
	answer error // why it does not
}

// shardRange is the workspaces of one shard: those with a hash from low to high.
type shardRange struct {
	low, high int32
	entrance  *Entrance // nil: the coordinator
}

const (
	// every is the time after which it is asked again which nodes answer, and where shards
	// are. Until then, what has moved costs a hop.
	every = 5 * time.Second

	// askTimeout bounds what one node is asked: a node that is slow is better asked than not.
	askTimeout = 3 * time.Second

	// maxHashes is how many workspaces' hashes are kept, of some 60 bytes each.
	maxHashes = 200_000
)

// New makes a Set of the nodes that a URL with several hosts names beside the coordinator,
// and asks them once. It is nil for an URL with one host and for one PostgreSQL.
func New(ctx context.Context, cfg Config) (*Set, error) {
	hosts, err := pg.Hosts(cfg.URL)
	if err != nil || len(hosts) < 2 {
		return nil, err
	}
	distributed, err := pg.OnCitus(ctx, cfg.Coordinator)
	if err != nil || !distributed {
		return nil, err
	}
	return newSet(ctx, cfg, hosts), nil
}

func newSet(ctx context.Context, cfg Config, hosts []string) *Set {
	s := &Set{cfg: cfg, hashes: map[string]int32{}}
	for _, host := range hosts {
		s.entrances = append(s.entrances, &Entrance{Name: host})
	}
	s.look(ctx)
	return s
}

// Run asks again from time to time, until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	for flow.Pause(ctx, every) {
		s.look(ctx)
	}
	return nil
}

// Of is the entrance for the statements of a workspace; nil: the coordinator.
func (s *Set) Of(ctx context.Context, workspaceID string) *Entrance {
	if s == nil {
		return nil
	}
	ranges := s.ranges.Load()
	if ranges == nil {
		return nil
	}
	hash, err := s.hash(ctx, workspaceID)
	if err != nil {
		return nil // the coordinator will say what is wrong
	}
	i, _ := slices.BinarySearchFunc(*ranges, hash, func(r shardRange, hash int32) int { return cmp.Compare(r.high, hash) })
	if i == len(*ranges) || hash < (*ranges)[i].low {
		return nil
	}
	return (*ranges)[i].entrance
}

// hash is what Citus finds the shard of a workspace by. It never changes.
func (s *Set) hash(ctx context.Context, workspaceID string) (hash int32, err error) {
	s.mu.Lock()
	hash, known := s.hashes[workspaceID]
	s.mu.Unlock()
	if known {
		return hash, nil
	}
	if err := s.cfg.Coordinator.QueryRow(ctx, `SELECT worker_hash($1::text)`, workspaceID).Scan(&hash); err != nil {
		return 0, fmt.Errorf("ask for the hash of %s: %w", workspaceID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hashes) >= maxHashes {
		clear(s.hashes)
	}
	s.hashes[workspaceID] = hash
	return hash, nil
}

// look asks the nodes who they are, and the coordinator which of them has which shards. What
// is not known is left to the coordinator.
func (s *Set) look(ctx context.Context) {
	var all sync.WaitGroup
	for _, e := range s.entrances {
		all.Go(func() { s.ask(ctx, e) })
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ranges, err := s.shards(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "cannot find out which node of the cluster has which workspaces; what was known is used", "error", err)
		}
		return
	}
	s.ranges.Store(&ranges)
}

// ask asks a node who it is.
func (s *Set) ask(ctx context.Context, e *Entrance) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	group, err := s.groupAt(limited, e.Name)
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil && e.answer == nil:
		s.cfg.Logger.WarnContext(ctx, "a node of the cluster does not answer; statements for its workspaces go to the coordinator", "node", e.Name, "error", err)
	case err == nil && e.answer != nil:
		s.cfg.Logger.InfoContext(ctx, "a node of the cluster answers again", "node", e.Name)
	}
	e.group, e.answer = group, err
}

func (s *Set) groupAt(ctx context.Context, host string) (group int32, err error) {
	cfg, err := s.configAt(host, nil)
	if err != nil {
		return 0, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return 0, fmt.Errorf("connect to the node %s: %w", host, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := conn.QueryRow(ctx, `SELECT groupid FROM pg_dist_local_group`).Scan(&group); err != nil {
		return 0, fmt.Errorf("ask the node %s who it is: %w", host, err)
	}
	return group, nil
}

// shards are the ranges of the shards, in order. The head of the log stands for all tables:
// the rows of a workspace are together.
func (s *Set) shards(ctx context.Context) ([]shardRange, error) {
	rows, err := s.cfg.Coordinator.Query(ctx, `
		SELECT s.shardminvalue::integer, s.shardmaxvalue::integer, p.groupid
		  FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid
		 WHERE s.logicalrelid = 'log_head'::regclass AND p.shardstate = 1 ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("look for the shards: %w", err)
	}
	ranges, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r shardRange, err error) {
		var group int32
		if err := row.Scan(&r.low, &r.high, &group); err != nil {
			return r, fmt.Errorf("a shard: %w", err)
		}
		r.entrance = s.at(group)
		return r, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the shards: %w", err)
	}
	return ranges, nil
}

// coordinatorGroup is the number of the coordinator among the nodes.
const coordinatorGroup = 0

// at is the entrance to a node; nil: there is none, or it does not answer.
func (s *Set) at(group int32) *Entrance {
	for _, e := range s.entrances {
		if is, answer := e.is(); answer == nil && is == group && group != coordinatorGroup {
			return e
		}
	}
	return nil
}

// is is which node it is, or why it does not answer.
func (e *Entrance) is() (group int32, answer error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.group, e.answer
}

// State is how an entrance was when it was asked last.
type State struct {
	Name    string `json:"name"` // host:port
	Answers bool   `json:"answers"`
}

// States are those of all nodes that DATABASE_URL names, in its order.
func (s *Set) States() (list []State) {
	if s == nil {
		return nil
	}
	for _, e := range s.entrances {
		_, answer := e.is()
		list = append(list, State{e.Name, answer == nil})
	}
	return list
}

// Listening are how to connect to each node beside the coordinator, by its name, to listen for
// what producers notify there that append in transactions of their own.
func (s *Set) Listening(parameters map[string]string) (map[string]*pgx.ConnConfig, error) {
	if s == nil {
		return nil, nil
	}
	list := map[string]*pgx.ConnConfig{}
	for _, e := range s.entrances {
		if group, answer := e.is(); answer == nil && group == coordinatorGroup {
			continue
		}
		cfg, err := s.configAt(e.Name, parameters)
		if err != nil {
			return nil, err
		}
		list[e.Name] = cfg
	}
	return list, nil
}

// configAt is how to connect to a host, with some parameters.
func (s *Set) configAt(host string, parameters map[string]string) (*pgx.ConnConfig, error) {
	cfg, err := pg.ConnConfig(s.cfg.URL, parameters)
	if err == nil {
		err = pg.At(cfg, host)
	}
	if err != nil {
		return nil, fmt.Errorf("the node %s: %w", host, err)
	}
	return cfg, nil
}
