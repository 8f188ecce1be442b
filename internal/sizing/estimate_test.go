//go:build full

package sizing

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// usual is a load of 1,000 entries a day in one workspace, so that by hand it is easy.
func usual() Load {
	return Load{
		EntriesPerDay: 1000, Workspaces: 1, Retention: 9 * day, WebhooksPerEvent: 2, RequestsPerSecond: 1, Years: 1, Peak: 10, CheckpointTimeout: 5 * time.Minute,
		Processes: []Processes{{AllRoles, 2}, {"api", 1}},
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }

func TestEstimate(t *testing.T) {
	t.Parallel()
	l := usual()
	e := l.Estimate()
	tables := map[string]Table{}
	for _, c := range Tables() {
		tables[c.Name] = c
	}
	log, delivery, request := tables["event_log"], tables["webhook_delivery"], tables["request_log"]
	wal, cpu, all, api := WALCosts(), CPUCosts(), Role(AllRoles), Role("api")
	for name, c := range map[string]struct{ got, want float64 }{
		"entries":     {e.Entries, 365_250},
		"log":         {e.Disk[0].Bytes, 365_250 * (log.Heap + log.Indexes)},
		"deliveries":  {e.Disk[2].Bytes, 10 * 1000 * EventsPerEntry * 2 * (delivery.Heap + delivery.Indexes)}, // of the retention, and of the day that is not over
		"requests":    {e.Disk[3].Bytes, 32 * 86_400 * (request.Heap + request.Indexes)},
		"log for all": {e.Disk[0].Bytes + e.Disk[1].Bytes, 365_250 * BytesPerEntry()},
		"write-ahead log of 1,000/288 entries after each checkpoint, at most as of one": {
			min(e.WAL.Plain, 1000*(wal.Append+wal.Project+wal.Pages[0].Plain)+1000*EventsPerEntry*2*wal.Deliver+86_400*wal.Request), e.WAL.Plain,
		},
		"max_wal_size": {e.WAL.MaxWALSize, 1 << 30},
		"memory":       {e.MemoryMiB, 2*all.BusyMiB + api.BusyMiB},
		"connections":  {float64(e.Connections), float64(2*all.Connections + api.Connections)},
		"api":          {e.CPU[3].Average, cpu.Request / 1e6},
		"api, peak":    {e.CPU[3].Peak, 10 * cpu.Request / 1e6},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %g, want %g", name, c.got, c.want)
		}
	}
}

// A young installation has no more deliveries than it has had days.
func TestEstimateOfTheFirstDays(t *testing.T) {
	t.Parallel()
	l := usual()
	l.Years = 2 / daysAYear
	e := l.Estimate()
	for _, c := range Tables() {
		if c.Name == "webhook_delivery" && !near(e.Disk[2].Bytes, 2*1000*EventsPerEntry*2*(c.Heap+c.Indexes)) {
			t.Errorf("deliveries of two days: %g bytes", e.Disk[2].Bytes)
		}
	}
}

// More of anything never needs less, and a longer time between checkpoints never writes
// more.
func TestEstimateGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := usual()
		l.EntriesPerDay = rapid.Float64Range(1, 1e9).Draw(t, "entries")
		l.Workspaces = rapid.IntRange(1, 1_000_000).Draw(t, "workspaces")
		before := l.Estimate()
		longer := l
		longer.CheckpointTimeout = time.Duration(rapid.IntRange(5, 1440).Draw(t, "minutes")) * time.Minute
		if after := longer.Estimate(); after.WAL.Plain > before.WAL.Plain*1.000001 || after.WAL.Compressed > before.WAL.Compressed*1.000001 {
			t.Fatalf("%+v after %+v", after.WAL, before.WAL)
		}
		l.EntriesPerDay *= rapid.Float64Range(1, 100).Draw(t, "times")
		after := l.Estimate()
		if after.Database < before.Database || after.WAL.Plain < before.WAL.Plain*0.999999 || after.CPU[0].Average < before.CPU[0].Average {
			t.Fatalf("%+v after %+v", after, before)
		}
		for _, bytes := range []float64{after.Database, after.WAL.Plain, after.WAL.Compressed, after.WAL.MaxWALSize} {
			if math.IsNaN(bytes) || math.IsInf(bytes, 0) || bytes <= 0 {
				t.Fatalf("%+v", after)
			}
		}
	})
}

// The archive has a file of 16 MiB for each archive_timeout, however little is in it, and
// no more files than the log fills once these are full.
func TestArchived(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout   time.Duration
		log, want float64
	}{
		{time.Minute, 0, 1440 * 16 << 20}, {time.Minute, 1 << 30, 1440 * 16 << 20}, {time.Minute, 1 << 40, 1 << 40}, {5 * time.Minute, 1, 288 * 16 << 20}, {0, 1 << 30, 1 << 30},
	} {
		l := usual()
		l.ArchiveTimeout = c.timeout
		if got := l.archived(c.log); !near(got, c.want) {
			t.Errorf("%v, a log of %g: %g, want %g", c.timeout, c.log, got, c.want)
		}
		e := l.Estimate()
		if e.WAL.Archived != l.archived(e.WAL.Plain) || e.WAL.ArchivedCompressed != l.archived(e.WAL.Compressed) {
			t.Errorf("%+v", e.WAL)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 10 << 20: "10 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%g: %q, want %q", n, got, want)
		}
	}
}
