package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// probe does what a role's work begins with.
type probe struct {
	role string
	run  func(context.Context) error
}

// probes are the probes of all roles of a process, with their last outcome.
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
	Cell   string `json:"cell,omitempty"` // empty: the process has one database
	Role   string `json:"role"`           // empty: all
	Reason string `json:"reason"`
}

// Readiness is what /readyz answers.
type Readiness struct {
	Ready   bool      `json:"ready"`
	Reasons []Unready `json:"reasons"`

	Connections PoolUse        `json:"connections"`        // to the database
	Standbys    *standby.State `json:"standbys,omitempty"` // that are read from; when they are not, the process is ready all the same

	// Notifications tells whether the process hears of the changes of others; nil: it does not listen.
	// Without them it works all the same, by sweeps.
	Notifications *eventlog.Listening `json:"notifications"`
}

// readiness tells whether every role can do its work, or one of them, and if not, why.
func (s *Service) readiness(ctx context.Context, role string) Readiness {
	is := Readiness{Reasons: []Unready{}}
	switch reason := s.reasonNotReady(role); {
	case reason != "":
		is.Reasons = append(is.Reasons, Unready{Cell: s.env.Cell, Reason: reason})
	case !s.ready.Load():
		is.Reasons = append(is.Reasons, Unready{Cell: s.env.Cell, Reason: "starting or stopping"})
	default:
		for _, found := range s.probes.run(ctx) {
			if found.Cell = s.env.Cell; role == "" || found.Role == role {
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
	if s.ready.Load() { // before, it may not have a notifier
		is.Notifications = s.notifier.Listening()
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
	if s.part != nil {
		return []prometheus.Collector{roles}
	}
	return []prometheus.Collector{roles, readyGauge(nil, func() bool { return s.readiness(context.Background(), "").Ready })}
}

func readyGauge(labels prometheus.Labels, ready func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_ready", Help: "1 while every role of the process can do its work, 0 otherwise.", ConstLabels: labels,
	}, func() float64 {
		if ready() {
			return 1
		}
		return 0
	})
}

// readyz answers 200 where every role can do its work, and otherwise 503 with the
// reasons; with role=api and so on, it looks at that role alone, for a proxy that sends it
// requests.
func (s *Service) readyz(w http.ResponseWriter, r *http.Request) {
	answerReadiness(w, r, s.roles, s.readiness)
}

func answerReadiness(w http.ResponseWriter, r *http.Request, roles []string, of func(context.Context, string) Readiness) {
	role := r.URL.Query().Get("role")
	if role != "" && !slices.Contains(roles, role) {
		http.Error(w, "this process has no such role", http.StatusNotFound)
		return
	}
	answer := of(r.Context(), role)
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
			p.found = append(p.found, Unready{Role: p.list[i].role, Reason: reasonOf(err)})
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

// askTimeout bounds the wait for an answer, which takes as long as the probes of /readyz
// at most.
const askTimeout = 5 * time.Second

// AdminURL is where the process of this machine that listens at the address for operators
// can be asked. A process that listens at all addresses is asked at 127.0.0.1.
func AdminURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && (host == "" || ipErr == nil && ip.IsUnspecified()) {
		listen = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + listen
}

// Ask asks the process that listens at the address for operators whether it is ready.
func Ask(ctx context.Context, listen string) (answer Readiness, err error) {
	url := AdminURL(listen) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("cannot ask %s: %w", url, err)
	}
	client := http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("no process answers at LEDGERFEED_ADMIN_LISTEN: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("what answers %s is no serving process: %w", url, err)
	}
	return answer, nil
}

// String says why the process is not ready, by role.
func (r Readiness) String() string {
	var list []string
	for _, reason := range r.Reasons {
		text := reason.Reason
		if reason.Role != "" {
			text = reason.Role + ": " + text
		}
		if reason.Cell != "" {
			text = "cell " + reason.Cell + ": " + text
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// schemaInterval is how often a process that waits for a migration looks for its end.
const schemaInterval = 2 * time.Second

// ErrStoppedWaiting says that the process was ended while it waited for a migration.
var ErrStoppedWaiting = errors.New("ended while it waited for a migration of the database")

// awaitSchema waits until the schema of the database fits the program and its account may
// read the tables. Only operators are answered meanwhile, with what is to be done. A
// process that ended instead would be started again and again. While it is alive and not
// ready, orchestrators keep the processes of the version before.
func (s *Service) awaitSchema(ctx context.Context) error {
	reason, err := schemaFault(ctx, s.database.URL)
	if err != nil || reason == "" {
		return err
	}
	s.setUnready(reason)
	s.env.Logger.ErrorContext(ctx, "waiting: the process serves nothing yet", "reason", reason, "readiness", s.URL(AdminListener)+"/readyz")
	s.tellSystemd(ctx, daemon.SdNotifyReady+"\nSTATUS=Waiting: "+reason)
	for reason != "" {
		if !flow.Sleep(ctx, schemaInterval) {
			return ErrStoppedWaiting
		}
		was := reason
		if reason, err = schemaFault(ctx, s.database.URL); err != nil {
			reason = reasonOf(err)
		}
		if s.setUnready(reason); reason != "" && reason != was {
			s.env.Logger.WarnContext(ctx, "still waiting", "reason", reason)
		}
	}
	s.env.Logger.InfoContext(ctx, "the database was migrated: starting")
	s.tellSystemd(ctx, "STATUS=")
	return nil
}

// tellSystemd tells systemd about the process, unless other cells are served, too.
func (s *Service) tellSystemd(ctx context.Context, state string) {
	if s.part == nil {
		tellSystemd(ctx, s.env.Logger, state)
	}
}

// schemaFault is what keeps the program from serving the database at url, and what to do;
// empty: nothing does.
func schemaFault(ctx context.Context, url string) (string, error) {
	missing, err := migrations.Missing(ctx, url)
	switch {
	case pg.Forbidden(err):
		return fmt.Sprintf("this account of PostgreSQL may not read the tables (%v): run ledgerfeed migrate --grants apply as their owner", err), nil
	case err != nil:
		return "", fmt.Errorf("look at the schema: %w", err)
	case len(missing) > 0:
		return fmt.Sprintf("the schema of the database is older than this program, %s missing, the first is %s: "+
			"run ledgerfeed migrate as the owner of the tables, and ledgerfeed migrate --grants apply if the service has a role of its own", texts.Count(len(missing), "migration is", "migrations are"), missing[0].Name), nil
	}
	unreadable, err := migrations.Unreadable(ctx, url)
	if err != nil {
		return "", fmt.Errorf("look at the rights of this account: %w", err)
	}
	if len(unreadable) > 0 {
		return fmt.Sprintf("this account of PostgreSQL may not read %v: run ledgerfeed migrate --grants apply as the owner of the tables", unreadable), nil
	}
	return "", nil
}
