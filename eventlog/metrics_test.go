package eventlog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// A producer sees its appends, by call and outcome, in its own registry.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	registry := prometheus.NewRegistry()
	log := testkit.Must(eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Metrics: registry}))(t)
	if _, err := eventlog.New(eventlog.Config{Pool: b.pool, Clock: b.clock.Now, Metrics: registry}); err == nil {
		t.Error("the same metrics are registered twice")
	}
	ctx := t.Context()
	testkit.Must(log.Append(ctx, client(t, "w", "a", "n")))(t)
	testkit.Must(log.Append(ctx, client(t, "w", "a", "n"), client(t, "w", "b", "n")))(t)
	if _, err := log.Append(ctx, client(t, "w", "a", "other")); err == nil {
		t.Error("an id with other content is appended")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := log.Append(gone, client(t, "w", "c", "n"), client(t, "w", "d", "n")); err == nil {
		t.Error("appended after its context ended")
	}
	if err := pg.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		_, err := log.AppendTx(ctx, tx, client(t, "w", "e", "n"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	entries := map[string]float64{}
	calls := map[string]uint64{}
	for _, family := range testkit.Must(registry.Gather())(t) {
		for _, m := range family.GetMetric() {
			key := m.GetLabel()[0].GetValue() + " " + m.GetLabel()[1].GetValue()
			if m.GetHistogram() != nil {
				calls[key] = m.GetHistogram().GetSampleCount()
			} else {
				entries[key] = m.GetCounter().GetValue()
			}
		}
	}
	for key, want := range map[string]uint64{
		"append appended": 2, "append refused": 1, "append failed": 1, "append_tx appended": 1, "append_tx refused": 0, "append_tx failed": 0,
		"restore appended": 0, "restore refused": 0, "restore failed": 0,
	} {
		if calls[key] != want {
			t.Errorf("%d calls of %s, want %d", calls[key], key, want)
		}
	}
	for key, want := range map[string]float64{"append new": 2, "append skipped": 1, "append_tx new": 1, "append_tx skipped": 0, "restore new": 0, "restore skipped": 0} {
		if entries[key] != want {
			t.Errorf("%v entries of %s, want %v", entries[key], key, want)
		}
	}
}
