//go:build full

package sizing

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the tables of docs/scale.md again")

const scaleFile = "../../docs/scale.md"

// The load of docs/scale.md, and what it takes for granted. Its section "What is assumed"
// says each of these in words.
const (
	scaleWorkspaces   = 1_000_000
	scaleEntriesMonth = 1e9
	scalePeak         = 10
	scaleCheckpoint   = 30 * time.Minute
	scaleRetention    = 30 * day

	nodeProcessors, nodeMemory, nodeDisk = 16, 128 << 30, 8 << 40 // of a server of PostgreSQL; memory and disk in bytes
	diskInUse                            = 0.7
	processorsInUse                      = 0.5
	memoryForPages                       = 0.5
	serversANode                         = 2 // with its standby
	processesARole                       = 2
	archiveDays                          = 7

	priceProcessor, priceMemory, priceDisk, priceArchive = 20, 2.5, 0.10, 0.02 // a month; the last three of a GiB
)

// What a statement costs on a Citus cluster, in times of one PostgreSQL: appends and pages
// a second of eight clients with all processors in use, on one PostgreSQL and through the
// coordinator of two workers, and projecting, which was half as fast.
const (
	citusAppend  = 6059.0 / 1230
	citusPage    = 16_500.0 / 2700
	citusProject = 2.0
)

// scaleLoad is the load after some years, in total.
func scaleLoad(years float64) *Load {
	l := &Load{
		EntriesPerDay: scaleEntriesMonth * 12 / daysAYear, Workspaces: scaleWorkspaces, Retention: scaleRetention,
		WebhooksPerEvent: 1, Years: years, Peak: scalePeak, CheckpointTimeout: scaleCheckpoint, ArchiveTimeout: time.Minute,
	}
	l.RequestsPerSecond = l.EntriesPerDay / day.Seconds()
	for _, role := range Roles() {
		if role.Name != AllRoles {
			l.Processes = append(l.Processes, Processes{role.Name, processesARole})
		}
	}
	return l
}

// need is how many servers a part of the load wants: of disk, of processors at the peak,
// of memory for the pages that change.
type need struct{ disk, processors, memory int }

func (n need) nodes() int { return max(n.disk, n.processors, n.memory) }

func ceil(n float64) int { return int(math.Ceil(n - 1e-9)) }

// pagesInUse are the bytes of the pages that the next entry of each workspace changes.
func pagesInUse() float64 { return scaleWorkspaces * WALCosts().Pages[0].Plain }

// needs are the servers of cells, or the workers of a cluster.
func needs(e *Estimate) need {
	return need{
		disk:       ceil(e.Database / (nodeDisk * diskInUse)),
		processors: ceil(e.CPU[0].Peak / (nodeProcessors * processorsInUse)),
		memory:     ceil(pagesInUse() / (nodeMemory * memoryForPages)),
	}
}

// citusProcessors are those in use at the peak: all of the cluster, and those of them that
// one entrance has. What a node does for its own workspaces is what one PostgreSQL does;
// the rest is taken to be the entrance's.
func citusProcessors(e *Estimate) (all, entrance float64) {
	c := CPUCosts()
	entries := e.Load.EntriesPerDay / day.Seconds() * scalePeak
	all = entries*(c.AppendServer*citusAppend+c.ProjectServer*citusProject)/1e6 +
		e.Load.deliveriesPerDay()/day.Seconds()*scalePeak*c.DeliverServer*citusPage/1e6 +
		e.Load.RequestsPerSecond*scalePeak*c.RequestServer*citusPage/1e6
	return all, all - e.CPU[0].Peak
}

// coordinator is how many processors one has that has so many in use at the peak.
func coordinator(inUse float64) float64 { return math.Ceil(inUse / processorsInUse) }

const gib = 1 << 30

// server is the price of a server of PostgreSQL for a month.
func server() float64 {
	return nodeProcessors*priceProcessor + nodeMemory/gib*priceMemory + nodeDisk/gib*priceDisk
}

// scaleTables are the tables of docs/scale.md by name, in its rows.
func scaleTables() map[string][]string {
	tables := map[string][]string{}
	row := func(table, format string, values ...any) {
		tables[table] = append(tables[table], "| "+fmt.Sprintf(format, values...)+" |")
	}
	e := scaleLoad(1).Estimate()
	l := e.Load
	for _, c := range []struct {
		name   string
		perDay float64
	}{{"entries, appended alone and projected as they come", l.EntriesPerDay}, {"deliveries to webhooks", l.deliveriesPerDay()}, {"pages of 50 that are not in a cache", l.requestsPerDay()}} {
		row("load", "%s | %s | %.0f | %s", c.name, millions(c.perDay), c.perDay/day.Seconds(), thousands(c.perDay/day.Seconds()*scalePeak))
	}
	for _, c := range e.CPU {
		row("processors", "%s | %.2f | %.1f", c.Name, c.Average, c.Peak)
	}
	for _, entries := range []float64{1, 4, 16, 64} {
		w := WALCosts()
		plain, compressed := w.fullPages(entries)
		records := l.EntriesPerDay*(w.Append+w.Project) + l.deliveriesPerDay()*w.Deliver + l.requestsPerDay()*w.Request
		row("wal", "%.0f | %s | %s", entries, Bytes(records+l.EntriesPerDay*plain), Bytes(records+l.EntriesPerDay*compressed))
	}
	citusAll, entrance := citusProcessors(e)
	for _, years := range []float64{1, 2, 3} {
		e := scaleLoad(years).Estimate()
		row("disk", "%.0f | %.0f·10⁹ | %s | %s | %s", years, e.Entries/1e9, Bytes(e.Disk[0].Bytes+e.Disk[1].Bytes), Bytes(e.Disk[2].Bytes+e.Disk[3].Bytes), Bytes(e.Database))
		n := needs(e)
		row("nodes", "%.0f | %d | %d | %d | **%d** | **%d + 1**", years, n.disk, n.memory, n.processors, n.nodes(), n.nodes())
		archive := e.Database + archiveDays*e.WAL.Compressed
		cells, connections := float64(n.nodes()), thousands(float64(n.nodes()*e.Connections))
		processes := processesARole*float64(len(Roles())-1)*priceProcessor + e.MemoryMiB/1024*priceMemory // of an installation
		month := cells*(serversANode*server()+processes) + archive/gib*priceArchive
		larger := max(0, coordinator(entrance)-nodeProcessors) * priceProcessor
		citus := (cells+1)*serversANode*server() + serversANode*larger + processes + archive/gib*priceArchive
		row("cost", "%.0f | %.0f | %s | %s | %s | %.1f", years, cells*serversANode, Bytes(archive), thousands(month), thousands(citus), month/(scaleEntriesMonth/1e6))
		row("connections", "%.0f | %.0f × %d = %s | %d | %d | %.0f × %d = %s", years, cells, e.Connections, connections, e.MaxConnections, e.Connections, cells, e.Connections, connections)
	}
	for _, times := range []float64{1, 10, 100} {
		processors := times * e.Load.RequestsPerSecond * scalePeak * CPUCosts().RequestServer / 1e6
		row("replicas", "%s | %.1f | %d", thousands(times*e.Load.RequestsPerSecond*scalePeak), processors, ceil(processors/(nodeProcessors*processorsInUse)))
	}
	for _, times := range []float64{1, 2, 5, 10} {
		row("times", "%.0f | %.1f | %d | %.1f | %.1f | %.0f", times, times*e.CPU[0].Peak, ceil(times*e.CPU[0].Peak/(nodeProcessors*processorsInUse)),
			times*citusAll, times*entrance, coordinator(times*entrance))
	}
	c := CPUCosts()
	const tried = 2 // processors of the machine
	for _, p := range []struct {
		name           string
		cost, measured float64
	}{
		{"appends, one PostgreSQL", c.AppendServer, 6059},
		{"pages, one PostgreSQL", c.RequestServer, 16_500},
		{"appends, coordinator and two workers", c.AppendServer * citusAppend, 1230},
		{"pages, coordinator and two workers", c.RequestServer * citusPage, 2700},
	} {
		model := tried * 1e6 / p.cost
		row("check", "%s | %s | %s | %.2f", p.name, thousands(model), thousands(p.measured), model/p.measured)
	}
	return tables
}

func millions(n float64) string { return strconv.FormatFloat(n/1e6, 'f', 1, 64) + " million" }

// thousands writes a whole number with a comma at the thousands.
func thousands(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// TestScaleIsWhatTheCostsSay: the tables of docs/scale.md follow from the costs of this
// package, so that a cost that is measured again changes them.
func TestScaleIsWhatTheCostsSay(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(scaleFile)
	if err != nil {
		t.Fatal(err)
	}
	tables := scaleTables()
	// A name in a comment, the two lines of the head, and the rows.
	table := regexp.MustCompile(`(?m)(<!-- table: ([a-z]+) -->\n\n\|.*\n\|[-|]+\n)((?:\|.*\n)*)`)
	want := table.ReplaceAllStringFunc(string(file), func(text string) string {
		m := table.FindStringSubmatch(text)
		rows := tables[m[2]]
		if rows == nil {
			t.Errorf("docs/scale.md has a table %q, which is not reckoned, or is there twice", m[2])
		}
		delete(tables, m[2])
		return m[1] + strings.Join(rows, "\n") + "\n"
	})
	for name := range tables {
		t.Errorf("docs/scale.md has no table %q", name)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(scaleFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(file) {
		t.Error("the tables of docs/scale.md are not what the costs say: run go test ./internal/sizing -update, and read what git shows; its sentences quote them")
	}
}
