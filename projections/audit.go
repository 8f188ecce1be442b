package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// AuditConfig of an Auditor.
type AuditConfig struct {
	Pool    *pgxpool.Pool // opened with ReplaySettings; at least 3 connections
	Clock   func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none

	Rules Rules         // default LiveRules
	Every time.Duration // the time between two audits of a workspace; default a day
	Rate  int           // the most entries and rows it takes in a second; default 5,000
	Idle  time.Duration // how long it rests when no workspace is due, and at first; default a minute
}

// Auditor verifies every workspace again and again in the background, slowly.
// Any number of programs may run one against a database: one workspace is under
// way at a time.
type Auditor struct {
	cfg     AuditConfig
	replay  *Replay
	prolong func(context.Context) error // the claim of the workspace under way

	audited     *prometheus.CounterVec
	differences prometheus.Counter
	differing   prometheus.Gauge
}

// The results of an audit.
const (
	auditEqual      = "equal"
	auditDifferent  = "different"
	auditOtherRules = "other_rules" // rows made by another version's rules: nothing to compare with
	auditFailed     = "failed"
)

const (
	auditClaim  = time.Minute // without a word from it, another instance takes over
	auditAgain  = time.Hour   // after an audit that could not be finished
	mostInLog   = 10          // differences of a workspace that are logged one by one
	sooner      = 24          // a workspace that differed is due after this part of the usual time
	prolongedBy = auditClaim / 4
)

// NewAuditor makes an Auditor; it starts nothing.
func NewAuditor(cfg AuditConfig) (*Auditor, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("projections: AuditConfig needs a Pool, a Clock and a Logger")
	}
	if cfg.Every == 0 {
		cfg.Every = 24 * time.Hour
	}
	if cfg.Rate == 0 {
		cfg.Rate = 5000
	}
	if cfg.Idle == 0 {
		cfg.Idle = time.Minute
	}
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
			Help: "Workspaces whose last audit, by whichever instance, found a difference. Alert on anything but 0.",
		}),
	}
	for _, result := range []string{auditEqual, auditDifferent, auditOtherRules, auditFailed} {
		a.audited.WithLabelValues(result)
	}
	if cfg.Metrics != nil {
		for _, c := range []prometheus.Collector{a.audited, a.differences, a.differing} {
			if err := cfg.Metrics.Register(c); err != nil {
				return nil, err
			}
		}
	}
	wait := NewPace(cfg.Rate)
	var err error
	a.replay, err = NewReplay(ReplayConfig{
		Pool: cfg.Pool, Clock: cfg.Clock, Rules: cfg.Rules, Workers: 1,
		Pace: func(ctx context.Context, n int) error {
			if err := wait(ctx, n); err != nil {
				return err
			}
			return a.prolong(ctx)
		},
	})
	return a, err
}

// Run audits until ctx ends. It begins with a rest: a program that starts has
// other things to do.
func (a *Auditor) Run(ctx context.Context) error {
	rest := time.NewTimer(a.cfg.Idle)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rest.C:
		}
		for found := true; found && ctx.Err() == nil; {
			var err error
			if found, err = a.Next(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Logger.WarnContext(ctx, "the background audit is interrupted; it goes on later", "error", err)
				break
			}
		}
		rest.Reset(a.cfg.Idle)
	}
}

// Next audits the workspace that is due, and reports whether there was one.
func (a *Auditor) Next(ctx context.Context) (bool, error) {
	id, err := a.claim(ctx)
	if err != nil || id == "" {
		return false, err
	}
	a.prolong = a.prolonging(id)
	var (
		list    []Difference
		derived int64
	)
	v, err := a.verify(ctx, id, func(d Difference) {
		if d.Resource != resourceLog {
			derived++
		}
		if len(list) < mostInLog {
			list = append(list, d)
		}
	})
	if ctx.Err() != nil {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return true, a.finish(release, id, `claimed_until = NULL`)
	}
	if err != nil {
		a.audited.WithLabelValues(auditFailed).Inc()
		a.cfg.Logger.ErrorContext(ctx, "a workspace could not be audited", "workspace", id, "error", err)
		return true, a.finish(ctx, id, `differences = NULL, error = $2, claimed_until = $3`, err.Error(), a.cfg.Clock().Add(auditAgain))
	}
	a.tell(ctx, &v, derived, list)
	if err := a.finish(ctx, id, `audited_at = $2, position = $3, differences = $4, error = NULL, claimed_until = NULL`, a.cfg.Clock(), v.Position, v.Differences); err != nil {
		return true, err
	}
	return true, a.gauge(ctx)
}

func (a *Auditor) verify(ctx context.Context, id string, report func(Difference)) (Verification, error) {
	list, err := a.replay.sizes(ctx, id)
	if err != nil {
		return Verification{}, err
	}
	return a.replay.verify(ctx, list[0], nil, report)
}

// tell counts and logs what an audit found. Rows of other rules differ as they
// must: then only the log itself counts.
func (a *Auditor) tell(ctx context.Context, v *Verification, derived int64, list []Difference) {
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
		a.cfg.Logger.ErrorContext(ctx, "the audit found a difference", "workspace", d.WorkspaceID, "resource", d.Resource, "id", d.ID,
			"field", d.Field, "stored", text(d.Stored), "folded", text(d.Folded))
	}
	a.cfg.Logger.ErrorContext(ctx, "a workspace is not as its log says: ledgerfeed verify lists all, ledgerfeed rebuild repairs read models",
		"workspace", v.WorkspaceID, "position", v.Position, "differences", v.Differences, "log_intact", v.LogIntact)
}

func text(s *string) string {
	if s == nil {
		return "nothing"
	}
	return *s
}

// claim takes the workspace whose audit is the longest ago, if one is due and
// no instance is at another.
func (a *Auditor) claim(ctx context.Context) (id string, err error) {
	now := a.cfg.Clock()
	err = a.cfg.Pool.QueryRow(ctx, `
		INSERT INTO replay_audit AS a (workspace_id, claimed_until)
		SELECT w.workspace_id, $2::timestamptz FROM workspace w LEFT JOIN replay_audit o USING (workspace_id)
		 WHERE (o.audited_at IS NULL OR o.audited_at <= CASE WHEN o.differences > 0 THEN $4::timestamptz ELSE $3::timestamptz END)
		   AND (o.claimed_until IS NULL OR o.claimed_until < $1)
		   AND NOT EXISTS (SELECT FROM replay_audit u WHERE u.claimed_until >= $1 AND u.error IS NULL)
		 ORDER BY o.audited_at NULLS FIRST, w.workspace_id LIMIT 1
		ON CONFLICT (workspace_id) DO UPDATE SET claimed_until = excluded.claimed_until, error = NULL
		 WHERE a.claimed_until IS NULL OR a.claimed_until < $1
		RETURNING workspace_id`,
		now, now.Add(auditClaim), now.Add(-a.cfg.Every), now.Add(-a.cfg.Every/sooner)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find a workspace to audit: %w", err)
	}
	return id, nil
}

// prolonging keeps a claim from running out.
func (a *Auditor) prolonging(id string) func(context.Context) error {
	last := a.cfg.Clock()
	return func(ctx context.Context) error {
		now := a.cfg.Clock()
		if now.Sub(last) < prolongedBy {
			return nil
		}
		last = now
		return a.finish(ctx, id, `claimed_until = $2`, now.Add(auditClaim))
	}
}

func (a *Auditor) finish(ctx context.Context, id, set string, args ...any) error {
	if _, err := a.cfg.Pool.Exec(ctx, `UPDATE replay_audit SET `+set+` WHERE workspace_id = $1`, append([]any{id}, args...)...); err != nil {
		return fmt.Errorf("note the audit of %s: %w", id, err)
	}
	return nil
}

func (a *Auditor) gauge(ctx context.Context) error {
	var n float64
	if err := a.cfg.Pool.QueryRow(ctx, `SELECT count(*) FROM replay_audit WHERE differences > 0`).Scan(&n); err != nil {
		return fmt.Errorf("count the workspaces that differ: %w", err)
	}
	a.differing.Set(n)
	return nil
}
