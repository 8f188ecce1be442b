package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
)

// AuditorConfig configures an Auditor.
type AuditorConfig struct {
	Pool, Changes, Sessions pg.DB  // see Config.Pool
	Direct                  string // see Config.Direct

	Clock   func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none

	Rules projections.Rules // default projections.LiveRules
	Every time.Duration     // between two audits of a workspace; default a day

	// ConvertOnly turns the audits off: the Auditor only rebuilds rows that older rules made.
	ConvertOnly bool

	Notify eventlog.NotifyFunc // called with workspaces whose rows were rebuilt; nil: nobody is notified

	Rate int           // the most entries and rows per second; default auditRate
	Idle time.Duration // before the first audit, and while no workspace is due; default a minute

	Memory int64 // see Config.Memory
}

// Auditor slowly verifies every workspace in the background, again and again. Before that it
// rebuilds the workspaces whose rows were made by older rules than its own. Any number of processes
// may run one against a database: together they work on one workspace at a time.
type Auditor struct {
	cfg    AuditorConfig
	replay *Replayer
	claim  auditClaim

	audited     *prometheus.CounterVec
	differences prometheus.Counter
	differing   prometheus.Gauge
	converted   prometheus.Counter
}

// auditClaim is this process's claim on the workspace that it audits.
type auditClaim struct {
	workspaceID string
	renewedAt   time.Time
}

// The results of an audit.
const (
	auditEqual      = "equal"
	auditDifferent  = "different"
	auditOtherRules = "other_rules" // rows made by another version's rules: nothing to compare with
	auditFailed     = "failed"
)

const (
	claimFor   = time.Minute // after this time without a renewal, another process may take the workspace
	renewAfter = claimFor / 4
	retryAfter = time.Hour // after an audit that failed
	maxLogged  = 10        // the most differences of a workspace that are logged one by one

	// auditRate is a twentieth of what verify does without a limit (docs/benchmarks.md), so that readers
	// and producers do not notice an audit, and a day is still enough for 400 million entries and rows.
	auditRate = 5000

	// sooner divides Every for workspaces that differed in their last audit.
	sooner = 24
)

// NewAuditor makes an Auditor; it starts nothing.
func NewAuditor(cfg AuditorConfig) (*Auditor, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("replay: AuditorConfig needs a Pool, a Clock and a Logger")
	}
	cfg.Every = cmp.Or(cfg.Every, 24*time.Hour)
	cfg.Rate = cmp.Or(cfg.Rate, auditRate)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	a := &Auditor{
		cfg: cfg,
		audited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_audits_total",
			Help: "Workspaces verified in the background, by result.",
		}, []string{"result"}),
		differences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledgerfeed_audit_differences_total",
			Help: "Differences that audits have found between read models, checkpoints and logs and what they must be.",
		}),
		differing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ledgerfeed_audit_differing_workspaces",
			Help: "Workspaces whose last audit, by any process, found a difference. Alert on anything but 0.",
		}),
	}
	a.converted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ledgerfeed_converted_workspaces_total",
		Help: "Workspaces whose rows were made by older rules and were rebuilt in the background.",
	})
	for _, result := range []string{auditEqual, auditDifferent, auditOtherRules, auditFailed} {
		a.audited.WithLabelValues(result)
	}
	if cfg.Metrics != nil {
		collectors := []prometheus.Collector{a.converted}
		if !cfg.ConvertOnly { // without audits, a 0 would wrongly say that all is well
			collectors = append(collectors, a.audited, a.differences, a.differing)
		}
		for _, c := range collectors {
			if err := cfg.Metrics.Register(c); err != nil {
				return nil, err
			}
		}
	}
	limit := NewRateLimiter(cfg.Rate)
	var err error
	a.replay, err = New(Config{
		Pool: cfg.Pool, Changes: cfg.Changes, Sessions: cfg.Sessions, Direct: cfg.Direct, Clock: cfg.Clock, Rules: cfg.Rules, Workers: 1, Memory: cfg.Memory, Notify: cfg.Notify,
		Limit: func(ctx context.Context, n int) error {
			if err := limit(ctx, n); err != nil {
				return err
			}
			return a.renewClaim(ctx)
		},
	})
	return a, err
}

// Run audits until ctx ends. It begins with a pause of Idle, because a program that starts has more
// urgent work.
func (a *Auditor) Run(ctx context.Context) error {
	idle := time.NewTimer(a.cfg.Idle)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-idle.C:
		}
		for found := true; found && ctx.Err() == nil; {
			var err error
			if found, err = a.Next(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Logger.WarnContext(ctx, "the background audit was interrupted", "error", err, "retry_in", a.cfg.Idle)
				break
			}
		}
		idle.Reset(a.cfg.Idle)
	}
}

// Next converts or audits a workspace that is due, and reports whether there was one.
func (a *Auditor) Next(ctx context.Context) (bool, error) {
	id, older, err := a.claimNext(ctx)
	if err != nil || id == "" {
		return false, err
	}
	if older {
		return true, a.convert(ctx, id)
	}
	return true, a.audit(ctx, id)
}

// audit verifies a workspace.
func (a *Auditor) audit(ctx context.Context, id string) error {
	var (
		list    []Difference
		derived int64 // differences that other rules may explain
	)
	v, err := a.verify(ctx, id, func(d Difference) {
		if d.dependsOnRules() {
			derived++
		}
		if len(list) < maxLogged {
			list = append(list, d)
		}
	})
	if ctx.Err() != nil {
		return a.release(ctx, id)
	}
	if err != nil {
		return a.failed(ctx, id, "cannot audit a workspace", err)
	}
	a.report(ctx, &v, derived, list)
	if err := a.store(ctx, id, `audited_at = $2, position = $3, differences = $4, error = NULL, claimed_until = NULL`, a.cfg.Clock(), v.Position, v.Differences); err != nil {
		return err
	}
	return a.countDiffering(ctx)
}

func (a *Auditor) verify(ctx context.Context, id string, report func(Difference)) (Verification, error) {
	list, err := a.replay.sizes(ctx, id)
	if err != nil {
		return Verification{}, err
	}
	return a.replay.verify(ctx, list[0], VerifyRequest{}, report)
}

// report counts and logs what an audit found. Rows made by other rules are expected to differ: then
// only differences in the log and its trees count.
func (a *Auditor) report(ctx context.Context, v *Verification, derived int64, list []Difference) {
	switch {
	case v.Differences == 0:
		a.audited.WithLabelValues(auditEqual).Inc()
		return
	case v.Rules != a.replay.cfg.Rules.Version && v.Differences == derived:
		v.Differences = 0
		a.audited.WithLabelValues(auditOtherRules).Inc()
		a.cfg.Logger.WarnContext(ctx, "the rows of a workspace were made by other rules than this program's: run ledgerfeed rebuild",
			"workspace", v.WorkspaceID, "rules", v.Rules, "program", a.replay.cfg.Rules.Version)
		return
	}
	a.audited.WithLabelValues(auditDifferent).Inc()
	a.differences.Add(float64(v.Differences))
	for i := range list {
		d := &list[i]
		// Not what differs: a log keeps names for longer than the database may.
		a.cfg.Logger.ErrorContext(ctx, "the audit found a difference", "workspace", d.WorkspaceID, "resource", d.Resource, "id", d.ID, "field", d.Field)
	}
	a.cfg.Logger.ErrorContext(ctx, "a workspace differs from its log: ledgerfeed verify lists all differences, ledgerfeed rebuild repairs read models",
		"workspace", v.WorkspaceID, "position", v.Position, "differences", v.Differences, "log_intact", v.LogIntact)
}

// claimNext claims a workspace that is due, unless a process is working on another. Workspaces
// whose rows were made by older rules come first, then the one with the oldest audit. It returns ""
// if there is none.
func (a *Auditor) claimNext(ctx context.Context) (id string, older bool, err error) {
	now := a.cfg.Clock()
	err = a.cfg.Pool.QueryRow(ctx, `
		WITH due AS (
		     SELECT w.workspace_id, coalesce(c.position > 0 AND c.rules < $5, false) AS older
		       FROM workspace w LEFT JOIN replay_audit o USING (workspace_id)
		       LEFT JOIN log_checkpoint c ON c.workspace_id = w.workspace_id AND c.consumer = $6
		      WHERE (o.claimed_until IS NULL OR o.claimed_until < $1)
		        AND (c.position > 0 AND c.rules < $5 AND coalesce(o.audited_at, '-infinity') <= $7
		          OR NOT $8 AND (o.audited_at IS NULL OR o.audited_at <= CASE WHEN o.differences > 0 THEN $4::timestamptz ELSE $3::timestamptz END))
		        AND NOT EXISTS (SELECT FROM replay_audit u WHERE u.claimed_until >= $1 AND u.error IS NULL)
		      ORDER BY older DESC, o.audited_at NULLS FIRST, w.workspace_id LIMIT 1),
		claimed AS (
		     INSERT INTO replay_audit AS a (workspace_id, claimed_until) SELECT workspace_id, $2::timestamptz FROM due
		     ON CONFLICT (workspace_id) DO UPDATE SET claimed_until = excluded.claimed_until, error = NULL
		      WHERE a.claimed_until IS NULL OR a.claimed_until < $1
		     RETURNING workspace_id)
		SELECT due.workspace_id, due.older FROM due JOIN claimed USING (workspace_id)`,
		now, now.Add(claimFor), now.Add(-a.cfg.Every), now.Add(-a.cfg.Every/sooner),
		a.replay.cfg.Rules.Version, eventlog.ReadModels, now.Add(-convertAgain), a.cfg.ConvertOnly).Scan(&id, &older)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("find a workspace to audit: %w", err)
	}
	a.claim = auditClaim{id, now}
	return id, older, nil
}

// renewClaim keeps the claim from expiring. It is called after every page.
func (a *Auditor) renewClaim(ctx context.Context) error {
	now := a.cfg.Clock()
	if now.Sub(a.claim.renewedAt) < renewAfter {
		return nil
	}
	a.claim.renewedAt = now
	return a.store(ctx, a.claim.workspaceID, `claimed_until = $2`, now.Add(claimFor))
}

// store updates the columns of a workspace's audit.
func (a *Auditor) store(ctx context.Context, id, set string, args ...any) error {
	if _, err := a.cfg.Pool.Exec(ctx, `UPDATE replay_audit SET `+set+` WHERE workspace_id = $1`, append([]any{id}, args...)...); err != nil {
		return fmt.Errorf("store the state of the audit of %s: %w", id, err)
	}
	return nil
}

func (a *Auditor) countDiffering(ctx context.Context) error {
	var n float64
	if err := a.cfg.Pool.QueryRow(ctx, `SELECT count(*) FROM replay_audit WHERE differences > 0`).Scan(&n); err != nil {
		return fmt.Errorf("count the workspaces that differ: %w", err)
	}
	a.differing.Set(n)
	return nil
}
