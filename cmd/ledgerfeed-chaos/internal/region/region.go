//go:build linux

package region

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Config describes a Region.
type Config struct {
	Cluster  *cluster.Cluster
	Findings *check.Findings
	Dir      string
	Seed     uint64
	Pace     time.Duration // between two transactions of the producer
}

// The databases.
const (
	shop = "shop" // the producer's
	home = "home"
	away = "away"
)

// Region is both installations, with what is between them.
type Region struct {
	Server    *cluster.Server    // PostgreSQL of all three databases
	Broker    *cluster.Process   // NATS
	Processes []*cluster.Process // that ingest and relay

	cfg  Config
	nats string // address of the broker

	stop     context.CancelFunc
	producer sync.WaitGroup
	figures  Figures
}

// Figures are how much went through.
type Figures struct{ Offered, Refused, Stored, Repeats, Followed int }

// New starts PostgreSQL and prepares the processes, which start with the cluster's.
func New(ctx context.Context, cfg Config) (*Region, error) {
	r := &Region{cfg: cfg, stop: func() {}}
	var err error
	if r.Server, err = cluster.NewServer(ctx, cfg.Cluster, shop, home, away); err != nil {
		return nil, err
	}
	for _, database := range []string{home, away} {
		if _, err := cfg.Cluster.OutputAt(ctx, r.Server.URLOf(database), "migrate"); err != nil {
			return nil, err
		}
	}
	if err := r.makeOutbox(ctx); err != nil {
		return nil, err
	}
	if err := r.addBroker(); err != nil {
		return nil, err
	}
	ingestOutbox := []string{
		"LEDGERFEED_INGEST_URL=" + r.Server.URLOf(shop) + "&topic=ledgerfeed", "LEDGERFEED_RELAY_URL=" + r.nats + "/?replicas=1&form=entries",
	}
	for _, p := range []cluster.ProcessConfig{
		{Name: "home-1", Args: []string{"serve", "--roles", "project,ingest,relay"}, URL: r.Server.URLOf(home), Settings: ingestOutbox},
		{Name: "home-2", Args: []string{"serve", "--roles", "project,ingest,relay"}, URL: r.Server.URLOf(home), Settings: ingestOutbox},
		{Name: "away-1", Args: []string{"serve", "--roles", "project,ingest"}, URL: r.Server.URLOf(away), Settings: []string{"LEDGERFEED_INGEST_URL=" + r.nats + "/?trust=relay"}},
	} {
		added, err := cluster.AddProcess(cfg.Cluster, p)
		if err != nil {
			return nil, err
		}
		r.Processes = append(r.Processes, added)
	}
	return r, nil
}

func (r *Region) addBroker() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	r.nats = fmt.Sprintf("nats://127.0.0.1:%d", port)
	r.Broker, err = cluster.AddProcess(r.cfg.Cluster, cluster.ProcessConfig{
		Name: "broker", Program: self, Settings: []string{fmt.Sprintf("%s=%d", variablePort, port), variableDir + "=" + filepath.Join(r.cfg.Dir, "broker")},
	})
	return err
}

// Start starts the producer.
func (r *Region) Start(ctx context.Context) {
	producing, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.producer.Go(func() { r.produce(producing) })
}

// settleTimeout is how long after the last fault the second installation may take to have
// everything: a process waits 10 s for the lease of one that died, and 10 s at most between
// two looks at a broker that was away.
const settleTimeout = 90 * time.Second

// Settle ends the producer and returns when everything has arrived, or does not.
func (r *Region) Settle(ctx context.Context) {
	r.stop()
	r.producer.Wait()
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); {
		if done, err := r.arrived(ctx); err == nil && done || !flow.Sleep(ctx, 250*time.Millisecond) {
			return
		}
	}
}
