package sizebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
)

// idleTime is how long a process has nothing to do before its memory is read.
const idleTime = 3 * time.Second

// load is the work of one role, or of all.
type load struct {
	role    string                      // of sizing.Roles
	unit    string                      // of the work; empty: of several kinds
	prepare func(context.Context) error // before the process is started; nil: nothing
	do      func(context.Context, *served) (n int, err error)
}

// benchRoles reports memory, connections and processor time of ledgerfeed serve with one
// role at a time, and with all.
func benchRoles(ctx context.Context, o *measure.Options) error {
	return measure.InDatabase(ctx, o, func(ctx context.Context, db *measure.Database) error {
		p, err := newProducers(db, shape{workspaces: 100, each: 4_000})
		if err != nil {
			return err
		}
		if _, err := p.appendNext(ctx, round); err != nil {
			return err
		}
		if err := p.projectAll(ctx); err != nil {
			return err
		}
		webhooks, err := p.subscribe(ctx)
		if err != nil {
			return err
		}
		defer webhooks.Close()
		r := &roles{producers: p, webhooks: webhooks}
		if err := r.appends(ctx); err != nil {
			return err
		}
		// Deliver is last, because the log is not projected any more after it.
		for _, l := range []load{
			{sizing.RoleProject, "entry", nil, r.project},
			{sizing.RoleAPI, "request", nil, r.requests},
			{sizing.RoleConsole, "page", nil, r.pages},
			{sizing.AllRoles, "", r.deliverAll, r.everything},
			{sizing.RoleDeliver, "delivery", r.appendInvisibly, r.deliver},
		} {
			if l.prepare != nil {
				if err := l.prepare(ctx); err != nil {
					return err
				}
			}
			if err := r.measure(ctx, l); err != nil {
				return fmt.Errorf("--roles %s: %w", l.role, err)
			}
		}
		return nil
	})
}

// roles is what the roles work on.
type roles struct {
	*producers
	webhooks *deliverbench.Subscriptions
}

// appends measures the database's processor time of appends, and projects them.
func (r *roles) appends(ctx context.Context) error {
	for _, a := range []struct {
		name  string
		times int
		do    func(context.Context) (int, error)
	}{
		{"append single entries", r.Size(50, 5), r.appendSingly},
		{"append 4 entries of each of 100 workspaces at a time", r.Size(50, 5), r.appendRound},
	} {
		before, err := serverTime(ctx, r.Database)
		if err != nil {
			return err
		}
		entries, err := repeat(ctx, a.times, a.do)
		if err != nil {
			return err
		}
		after, err := serverTime(ctx, r.Database)
		if err != nil {
			return err
		}
		r.Report.Add(measure.Figure{Name: a.name + ", processor time of PostgreSQL", Value: microseconds(after-before, entries), Unit: "µs/entry"})
	}
	return r.projectAll(ctx)
}

func (r *roles) appendRound(ctx context.Context) (int, error) { return r.appendNext(ctx, round) }

// deliverAll delivers what is owed, so that a process is idle at first.
func (r *roles) deliverAll(ctx context.Context) error {
	n, err := r.webhooks.Owed(ctx)
	if err != nil {
		return err
	}
	return r.webhooks.Deliver(ctx, n)
}

// appendInvisibly appends what is delivered once it counts as projected.
func (r *roles) appendInvisibly(ctx context.Context) error {
	_, err := repeat(ctx, r.Size(50, 5), r.appendRound)
	return err
}

func microseconds(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}

// measure runs a process with a role, idle and then with its work.
func (r *roles) measure(ctx context.Context, l load) (err error) {
	r.Say("measuring ledgerfeed serve --roles %s", l.role)
	s, err := start(ctx, r.Database, l.role, r.webhooks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := measure.Pause(ctx, idleTime); err != nil {
		return err
	}
	known := sizing.Role(l.role)
	idle, err := s.memory()
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "serve --roles " + l.role + ", memory when idle", Value: measure.MiB(idle.Now), Unit: "MiB", Limit: known.IdleMiB, LimitIs: limitIs})
	connections, err := s.connections(ctx)
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "    connections when idle", Value: float64(connections)})
	process, server, err := s.times(ctx)
	if err != nil {
		return err
	}
	watching := s.watch(ctx)
	n, err := l.do(ctx, s)
	most, werr := watching()
	if err = errors.Join(err, werr); err != nil || n == 0 {
		return err
	}
	processAfter, serverAfter, err := s.times(ctx)
	if err != nil {
		return err
	}
	busy, err := s.memory()
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{Name: "    memory at its peak under load", Value: measure.MiB(busy.Peak), Unit: "MiB", Limit: known.BusyMiB, LimitIs: limitIs})
	r.Report.Add(measure.Figure{Name: "    most connections under load", Value: float64(most), Limit: float64(known.Connections), LimitIs: "the sizes of its pools"})
	if l.unit != "" {
		r.Report.Add(measure.Figure{Name: "    processor time", Value: microseconds(processAfter-process, n), Unit: "µs/" + l.unit})
		r.Report.Add(measure.Figure{Name: "    processor time of PostgreSQL", Value: microseconds(serverAfter-server, n), Unit: "µs/" + l.unit})
	}
	return nil
}

// project has a process project entries as they come.
func (r *roles) project(ctx context.Context, _ *served) (entries int, err error) {
	return repeat(ctx, r.Size(100, 10), func(ctx context.Context) (int, error) {
		n, err := r.appendRound(ctx)
		if err != nil {
			return 0, err
		}
		return n, workload.AwaitProjected(ctx, r.Database)
	})
}

// owed tells whether webhooks have got everything that is projected.
const owed = `
	SELECT EXISTS (SELECT FROM webhook_cursor k
	                 JOIN log_checkpoint c ON c.workspace_id = k.workspace_id AND c.consumer = 'read_models'
	                 JOIN event_log e ON e.workspace_id = k.workspace_id AND e.position > k.position AND e.position <= c.position
	                WHERE e.public_event IS NOT NULL)`

// deliver lets the process see what was appended before it was started, and waits until
// it is delivered.
func (r *roles) deliver(ctx context.Context, _ *served) (int, error) {
	before := r.webhooks.Answered()
	if err := workload.SkipProjection(ctx, r.Database); err != nil {
		return 0, err
	}
	err := r.await(ctx, `SELECT NOT (`+owed+`)`)
	return int(r.webhooks.Answered() - before), err
}

// requests has a process answer requests for pages of which no two are the same, over
// many connections.
func (r *roles) requests(ctx context.Context, s *served) (int, error) {
	key, err := api.NewKey(ctx, r.Database, workload.WorkspaceID(0))
	if err != nil {
		return 0, err
	}
	q := api.Request{Host: s.address("api"), Key: key}
	callers, hangUp, err := api.DialAll(ctx, q)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	since := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	n, _, _, err := measure.Repeat(ctx, api.Connections, r.Duration(api.LoadTime), func(_ context.Context, caller, turn int) error {
		q := q
		at := since.Add(time.Duration(turn*api.Connections+caller) * time.Second)
		q.Path = "/v1/invoices?limit=50&updated_since=" + at.Format(time.RFC3339)
		callers[caller].SetRequest(q)
		return callers[caller].Expect(http.StatusOK)
	})
	return n, err
}

// pages has a process answer requests for the console's sign-in page.
func (r *roles) pages(ctx context.Context, s *served) (int, error) {
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: api.Connections}}
	defer client.CloseIdleConnections()
	n, _, _, err := measure.Repeat(ctx, api.Connections, r.Duration(api.LoadTime), func(ctx context.Context, _, _ int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address("console")+"/", http.NoBody)
		if err != nil {
			return fmt.Errorf("cannot ask for a page: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("cannot ask for a page: %w", err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	})
	return n, err
}

// everything has one process do the work of all roles at the same time.
func (r *roles) everything(ctx context.Context, s *served) (int, error) {
	ended := make(chan error, 1)
	go func() {
		_, err := r.requests(ctx, s)
		ended <- err
	}()
	n, err := r.project(ctx, s)
	if err == nil {
		err = r.await(ctx, `SELECT NOT (`+owed+`)`)
	}
	return n, errors.Join(err, <-ended)
}
