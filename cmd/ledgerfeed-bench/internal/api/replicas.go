package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// Replicas are streaming replicas of the server that is measured on.
type Replicas struct {
	set     *replica.Set
	list    []readapi.Replica
	metrics *prometheus.Registry
}

// OpenReplicas follows the replicas that the options name, until ctx ends, and waits until
// they are read from; nil: none are named.
func OpenReplicas(ctx context.Context, db *measure.Database) (*Replicas, error) {
	addresses, err := replica.ParseAddresses(db.ReadURLs)
	if err != nil || len(addresses) == 0 {
		return nil, err
	}
	for i := range addresses {
		if addresses[i].URL, err = db.At(addresses[i].URL); err != nil {
			return nil, err
		}
	}
	r := &Replicas{metrics: prometheus.NewRegistry()}
	r.set, err = replica.New(replica.Config{Primary: db.Pool, Addresses: addresses, Logger: measure.NoLogger(), Metrics: r.metrics})
	if err != nil {
		return nil, err
	}
	go func() { _ = r.set.Run(ctx) }()
	for _, server := range r.set.Servers() {
		pages, err := server.Open(ctx, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true})
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, pages.Close)
		r.list = append(r.list, readapi.Replica{Server: server, Pool: pages})
	}
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// replicaTimeout is how long replicas may take to replay what a benchmark has made.
const replicaTimeout = 5 * time.Minute

var errNoReplica = errors.New("a replica cannot be read from")

func (r *Replicas) await(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, replicaTimeout, errNoReplica)
	defer cancel()
	for {
		if err := r.set.Await(limited, time.Now()); err != nil {
			return fmt.Errorf("%w: %+v", err, r.set.States())
		}
		if replica.AllUsed(r.set.States()) {
			return nil
		}
	}
}

// Names are those of the replicas.
func (r *Replicas) Names() (list []string) {
	for _, is := range r.set.States() {
		list = append(list, is.Name)
	}
	return list
}

// Reads is how many requests each server has answered, by its name or replica.Primary.
func (r *Replicas) Reads() (map[string]float64, error) {
	families, err := r.metrics.Gather()
	if err != nil {
		return nil, fmt.Errorf("cannot read the metrics of the replicas: %w", err)
	}
	reads := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "ledgerfeed_replica_reads_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			reads[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return reads, nil
}
