package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// auditing is an Auditor whose clock, log and metrics a test controls.
type auditing struct {
	*replay.Auditor
	b       *bench
	now     time.Time
	log     bytes.Buffer
	metrics *prometheus.Registry
}

func newAuditing(b *bench, rules projections.Rules, change ...func(*replay.AuditorConfig)) *auditing {
	b.t.Helper()
	pool, err := pg.Open(b.t.Context(), b.URL, pg.Options{MaxConns: 3, Settings: replay.PoolSettings()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	a := &auditing{b: b, now: time.Now(), metrics: prometheus.NewRegistry()}
	cfg := replay.AuditorConfig{
		Pool: pool, Clock: func() time.Time { return a.now }, Logger: slog.New(slog.NewTextHandler(&a.log, nil)),
		Metrics: a.metrics, Rules: rules, Rate: 1_000_000, Idle: time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	a.Auditor, err = replay.NewAuditor(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// all audits until nothing is due, and returns how many workspaces were.
func (a *auditing) all() (n int) {
	a.b.t.Helper()
	for {
		found, err := a.Next(a.b.t.Context())
		if err != nil {
			a.b.t.Fatal(err)
		}
		if !found {
			return n
		}
		n++
	}
}

// value reads a metric; label is the value of its only label.
func (a *auditing) value(name, label string) float64 {
	a.b.t.Helper()
	families, err := a.metrics.Gather()
	if err != nil {
		a.b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	a.b.t.Fatalf("there is no metric %s %s", name, label)
	return 0
}

func TestAuditOnceADay(t *testing.T) {
	t.Parallel()
	b := projected(t)
	a := newAuditing(b, projections.LiveRules())
	if n := a.all(); n != 2 {
		t.Fatalf("%d workspaces were audited, want 2:\n%s", n, a.log.String())
	}
	if equal := a.value("ledgerfeed_audits_total", "equal"); equal != 2 || a.log.Len() > 0 {
		t.Errorf("%v were equal:\n%s", equal, a.log.String())
	}
	a.now = a.now.Add(23 * time.Hour)
	if n := a.all(); n != 0 {
		t.Errorf("%d workspaces were audited again within a day", n)
	}
	b.damage(`DELETE FROM contractor WHERE workspace_id = 'ws-2' AND id = (SELECT min(id) FROM contractor WHERE workspace_id = 'ws-2')`)
	a.now = a.now.Add(2 * time.Hour)
	if n := a.all(); n != 2 {
		t.Errorf("%d workspaces were audited after a day, want 2", n)
	}
	if different, differing := a.value("ledgerfeed_audits_total", "different"), a.value("ledgerfeed_audit_differing_workspaces", ""); different != 1 || differing != 1 {
		t.Errorf("%v audits differed, %v workspaces differ", different, differing)
	}
	if log := a.log.String(); !strings.Contains(log, "the audit found a difference") || !strings.Contains(log, "resource=contractors") || !strings.Contains(log, "log_intact=true") {
		t.Errorf("logged:\n%s", log)
	}
	// Repaired, it is audited again without waiting for a day.
	b.rebuild(b.replayer(), replay.RebuildRequest{})
	a.now = a.now.Add(2 * time.Hour)
	if n := a.all(); n != 1 {
		t.Errorf("%d workspaces were audited after the repair, want 1", n)
	}
	if differing := a.value("ledgerfeed_audit_differing_workspaces", ""); differing != 0 {
		t.Errorf("%v workspaces differ after the repair", differing)
	}
}

// Rows made by newer rules, by a program that was rolled back, are not an alarm
// and stay. A changed log is one all the same.
func TestAuditOfOtherRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Append(projectionstest.Generate(t, "ws-1", 1, 900))
	b.Append(projectionstest.Generate(t, "ws-2", 2, 700))
	b.ProjectBy(1000, nextRules())
	a := newAuditing(b, projections.LiveRules())
	a.all()
	if other, different := a.value("ledgerfeed_audits_total", "other_rules"), a.value("ledgerfeed_audits_total", "different"); other != 2 || different != 0 {
		t.Errorf("%v of other rules, %v different:\n%s", other, different, a.log.String())
	}
	b.damage(`UPDATE event_log SET type = 'nothing.known' WHERE workspace_id = 'ws-1' AND position = 7`)
	a.now = a.now.Add(25 * time.Hour)
	a.all()
	if different := a.value("ledgerfeed_audits_total", "different"); different != 1 {
		t.Errorf("%v different", different)
	}
}

// Rows made by older rules are rebuilt in the background, once, and before any
// audit.
func TestOlderRulesAreConverted(t *testing.T) {
	t.Parallel()
	b := projected(t)
	b.damage(`UPDATE log_checkpoint SET rules = 1 WHERE workspace_id = 'ws-2'`)
	b.damage(`DELETE FROM removed_time_entry`)
	b.damage(`INSERT INTO replay_audit (workspace_id, audited_at, differences) SELECT workspace_id, $1, 0 FROM workspace`, time.Now().Add(-2*time.Minute))
	for _, convertOnly := range []bool{false, true} {
		a := newAuditing(b, nextRules(), func(c *replay.AuditorConfig) { c.ConvertOnly = convertOnly })
		want := map[bool]float64{false: 2, true: 0}[convertOnly]
		if n := a.all(); float64(n) != want || a.value("ledgerfeed_converted_workspaces_total", "") != want {
			t.Errorf("%d workspaces, converted %v, want %v:\n%s", n, a.value("ledgerfeed_converted_workspaces_total", ""), want, a.log.String())
		}
	}
	if rules := b.text(`SELECT min(rules) || ' ' || max(rules) FROM log_checkpoint WHERE consumer = 'read_models'`); rules != fmt.Sprint(nextRules().Version, nextRules().Version) {
		t.Errorf("the rules are %s", rules)
	}
	if lines, _ := b.verify(b.replayer(func(c *replay.Config) { c.Rules = nextRules() }), replay.VerifyRequest{}); len(lines) > 0 {
		t.Errorf("after the conversion: %s", strings.Join(lines, "\n"))
	}
	// An older process that still projects undoes it: a minute later it is done again.
	b.damage(`UPDATE log_checkpoint SET rules = 1 WHERE workspace_id = 'ws-2'`)
	a := newAuditing(b, nextRules(), func(c *replay.AuditorConfig) { c.ConvertOnly = true })
	if n := a.all(); n != 0 {
		t.Errorf("converted %d workspaces at once again", n)
	}
	a.now = a.now.Add(2 * time.Minute)
	if n := a.all(); n != 1 {
		t.Errorf("converted %d workspaces again, want 1", n)
	}
}

// A workspace whose log was changed is not converted, is reported, and keeps no
// other waiting.
func TestAWrongLogIsNotConverted(t *testing.T) {
	t.Parallel()
	b := projected(t)
	b.damage(`UPDATE event_log SET type = 'nothing.known' WHERE workspace_id = 'ws-1' AND position = 7`)
	a := newAuditing(b, nextRules())
	a.all()
	if converted, different := a.value("ledgerfeed_converted_workspaces_total", ""), a.value("ledgerfeed_audits_total", "different"); converted != 1 || different != 1 {
		t.Errorf("converted %v, different %v:\n%s", converted, different, a.log.String())
	}
	if rules := b.text(`SELECT rules::text FROM log_checkpoint WHERE consumer = 'read_models' AND workspace_id = 'ws-1'`); rules != fmt.Sprint(projections.RulesVersion) {
		t.Errorf("ws-1 has rules %s", rules)
	}
	a.now = a.now.Add(30 * time.Minute)
	if n := a.all(); n != 0 {
		t.Errorf("%d workspaces were due within the hour", n)
	}
}

// One process audits at a time. One that has died delays the others by a minute.
func TestAuditsTakeTurns(t *testing.T) {
	t.Parallel()
	b := projected(t)
	a := newAuditing(b, projections.LiveRules())
	b.damage(`INSERT INTO replay_audit (workspace_id, claimed_until) VALUES ('ws-1', $1)`, a.now.Add(time.Minute))
	if n := a.all(); n != 0 {
		t.Errorf("%d workspaces were audited although another process was auditing", n)
	}
	a.now = a.now.Add(61 * time.Second)
	if n := a.all(); n != 2 {
		t.Errorf("%d workspaces were audited after the other process has died, want 2", n)
	}
}

func TestAuditStops(t *testing.T) {
	t.Parallel()
	b := projected(t)
	a := newAuditing(b, projections.LiveRules())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.until(func() bool {
		return b.text(`SELECT count(*)::text FROM replay_audit WHERE audited_at IS NOT NULL`) == "2"
	}, a.log.String)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
