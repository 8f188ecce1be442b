package service

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/gauges"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
)

// probe does what a role's work begins with.
type probe struct {
	role string
	run  func(context.Context) error
}

// probes are those of all roles of a process, with their last outcome.
type probes struct {
	list []probe

	mu    sync.Mutex
	at    time.Time // when they were run last; guarded by mu
	found []Unready // by them; guarded by mu
}

// add adds what is tried for a role. All are added before the first run.
func (p *probes) add(role string, run func(context.Context) error) {
	p.list = append(p.list, probe{role, run})
}

const (
	// probeTimeout bounds all probes together.
	probeTimeout = 2 * time.Second
	// probeInterval is how long their outcome stands: a caller that asks more
	// often gets it again, so that questions do not become load.
	probeInterval = time.Second
)

// Unready is why a process is not ready.
type Unready struct {
	Role   string `json:"role"` // empty: all
	Reason string `json:"reason"`
}

// Readiness is what /readyz answers.
type Readiness struct {
	Ready   bool      `json:"ready"`
	Reasons []Unready `json:"reasons"`

	Connections gauges.Connections `json:"connections"`        // to the database
	Standbys    *standby.State     `json:"standbys,omitempty"` // that are read from; when they are not, the process is ready all the same

	// Notifications are the ways by which the process hears of the changes of others. Without
	// one it works all the same, by sweeps.
	Notifications []eventlog.Way `json:"notifications"`
}

// readiness tells whether every role can do its work, or one of them, and if not, why.
func (s *Service) readiness(ctx context.Context, role string) Readiness {
	is := Readiness{Reasons: []Unready{}}
	switch reason := s.reasonNotReady(role); {
	case reason != "":
		is.Reasons = append(is.Reasons, Unready{"", reason})
	case !s.ready.Load():
		is.Reasons = append(is.Reasons, Unready{"", "starting or stopping"})
	default:
		for _, found := range s.probes.run(ctx) {
			if role == "" || found.Role == role {
				is.Reasons = append(is.Reasons, found)
			}
		}
	}
	is.Ready = len(is.Reasons) == 0
	is.Connections = s.pools.Connections()
	is.Connections.Most = s.connections.most
	if s.connections.standbys != nil {
		state := s.connections.standbys.State()
		is.Standbys = &state
	}
	is.Notifications = []eventlog.Way{}
	if s.ready.Load() { // before, it may not have a notifier
		is.Notifications = s.notifier.Ways()
	}
	return is
}

// collectors are the metrics that say which roles the process has, and whether it is ready.
// Those that it does not have are 0, so that a role that no process has is told from
// processes that cannot be asked.
func (s *Service) collectors() []prometheus.Collector {
	roles := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ledgerfeed_role", Help: "1 for the roles that the process was started with, 0 for the others."}, []string{"role"})
	for _, role := range AllRoles() {
		has := 0.0
		if slices.Contains(s.roles, role) {
			has = 1
		}
		roles.WithLabelValues(role).Set(has)
	}
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ledgerfeed_ready", Help: "1 while every role of the process can do its work, 0 otherwise."}, func() float64 {
		if s.readiness(context.Background(), "").Ready {
			return 1
		}
		return 0
	})
	return []prometheus.Collector{roles, ready}
}

// readyz answers 200 where every role can do its work, and otherwise 503 with the
// reasons; with role=api and so on, it looks at that role alone, for a proxy that sends it
// requests.
func (s *Service) readyz(w http.ResponseWriter, r *http.Request) {
	role := r.URL.Query().Get("role")
	if role != "" && !slices.Contains(s.roles, role) {
		http.Error(w, "this process has no such role", http.StatusNotFound)
		return
	}
	answer := s.readiness(r.Context(), role)
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(text, '\n')) // the caller has gone
}

// run runs the probes, unless that was done just before.
func (p *probes) run(ctx context.Context) []Unready {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < probeInterval {
		return p.found
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	var (
		wait    sync.WaitGroup
		results = make([]error, len(p.list))
	)
	for i, one := range p.list {
		wait.Go(func() { results[i] = one.run(ctx) })
	}
	wait.Wait()
	p.found = nil
	for i, err := range results {
		if err != nil {
			p.found = append(p.found, Unready{p.list[i].role, reasonOf(err)})
		}
	}
	p.at = time.Now()
	return p.found
}

// reasonOf is an error without the address and the account of the database.
func reasonOf(err error) string {
	if pg.CannotConnect(err) {
		return "the database cannot be reached"
	}
	return err.Error()
}
