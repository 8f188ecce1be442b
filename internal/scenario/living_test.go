package scenario

import (
	"bytes"
	"testing"
	"time"
)

// A history and then a demo that is restarted many times write to the same log.
func TestLivingContinuesAHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		cfg := testConfig(seed)
		cfg.End = cfg.Start.AddDate(0, 6, 0)
		f := newFold(t)
		for _, l := range all(t, cfg) {
			f.line(l)
		}
		position := int64(len(f.ids))
		before := f.anomalies
		now := cfg.End
		anomalous := int64(0)
		for restart := range 30 {
			l := NewLiving(cfg, position)
			for range 1 + restart*5 {
				now = now.Add(7 * time.Minute)
				line := l.Next(now)
				if !line.CreatedAt.IsZero() || line.WorkspaceID != cfg.WorkspaceID {
					t.Fatalf("%+v", line)
				}
				f.line(line)
				position++
			}
			anomalous += l.anomalies.written - int64(len(l.out)-l.taken)
		}
		if position != int64(len(f.ids)) {
			t.Errorf("%d ids at position %d", len(f.ids), position)
		}
		if got := f.anomalies - before; got < anomalous || got > anomalous+30 {
			t.Errorf("%d anomalies, about %d anomalous lines", got, anomalous)
		}
	}
}

// A long run goes through whole stories, and dates them by now.
func TestLivingStories(t *testing.T) {
	t.Parallel()
	cfg := testConfig(2)
	l := NewLiving(cfg, 0)
	f := newFold(t)
	now := cfg.End
	for range 20_000 {
		line := l.Next(now)
		f.line(line)
		f.dated(line, now)
		now = now.Add(15 * time.Minute)
	}
	f.paidInFull()
	for typ := range catalogue {
		if f.types[typ] == 0 {
			t.Errorf("no %s", typ)
		}
	}
	if l.queue.len() > 200 {
		t.Errorf("%d steps are planned: stories do not end", l.queue.len())
	}
}

func TestLivingSameConfigSameLines(t *testing.T) {
	t.Parallel()
	run := func(base int64) []byte {
		l := NewLiving(testConfig(9), base)
		var b []byte
		for i := range 500 {
			b = l.Next(testEnd.Add(time.Duration(i) * time.Minute)).AppendNDJSON(b)
		}
		return b
	}
	if !bytes.Equal(run(12), run(12)) {
		t.Error("two runs differ")
	}
	if bytes.Equal(run(12), run(13)) {
		t.Error("two positions do not differ")
	}
}

// A history that was cut short may lack parties who join late, and a workspace without
// a history lacks all.
func TestLivingKnowsOnlyWhoIsThere(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{10, 200, 2_000} {
		cfg := testConfig(4)
		cfg.Entries = entries
		f := newFold(t)
		lines := all(t, cfg)
		for _, l := range lines {
			f.line(l)
		}
		l := NewLiving(cfg, int64(len(lines)))
		for i := range 1_000 {
			f.line(l.Next(cfg.End.Add(time.Duration(i) * time.Second)))
		}
	}
	f := newFold(t)
	l := NewLiving(testConfig(4), 0)
	for i := range 1_000 {
		f.line(l.Next(testEnd.Add(time.Duration(i) * time.Second)))
	}
}
