package sizing

import (
	"math"
	"time"
)

// Load is what an installation is to carry.
type Load struct {
	EntriesPerDay     float64       `json:"entries_per_day"`
	Workspaces        int           `json:"workspaces"`         // that have entries in the day
	Retention         time.Duration `json:"-"`                  // of deliveries
	WebhooksPerEvent  float64       `json:"webhooks_per_event"` // webhooks that one event goes to, on average
	RequestsPerSecond float64       `json:"requests_per_second"`
	Years             float64       `json:"years"`
	Peak              float64       `json:"peak"` // the busiest second, in times of the average one
	CheckpointTimeout time.Duration `json:"-"`    // PostgreSQL's checkpoint_timeout
	ArchiveTimeout    time.Duration `json:"-"`    // PostgreSQL's archive_timeout; 0: none
	Processes         []Processes   `json:"-"`
}

// Processes are processes of ledgerfeed serve with the same role, or with all.
type Processes struct {
	Role  string `json:"role"`
	Count int    `json:"count"`
}

// Estimate is what a Load needs. Sizes are in bytes.
type Estimate struct {
	Load           Load       `json:"load"`
	RetentionDays  float64    `json:"retention_days"`
	Checkpoints    float64    `json:"checkpoints_a_day"`
	Entries        float64    `json:"entries"` // at the end
	Disk           []Group    `json:"disk"`
	Database       float64    `json:"database_bytes"`
	WAL            WALADay    `json:"write_ahead_log"`
	Memory         []RoleNeed `json:"processes"`
	MemoryMiB      float64    `json:"memory_mib"`  // of all processes
	Connections    int        `json:"connections"` // of all processes, at most
	MaxConnections int        `json:"max_connections"`
	CPU            []CPU      `json:"processors"`
	Measured       string     `json:"measured"` // when, and on what, the costs were
}

// Group is tables that hold the same kind of thing.
type Group struct {
	Name  string  `json:"name"`
	Rows  string  `json:"of"`
	Bytes float64 `json:"bytes"`
}

// WALADay is the write-ahead log of a day, in bytes.
type WALADay struct {
	Plain      float64 `json:"bytes_a_day"`            // wal_compression off
	Compressed float64 `json:"bytes_a_day_compressed"` // wal_compression lz4
	MaxWALSize float64 `json:"max_wal_size_bytes"`     // with which checkpoints come at their time, also in the busiest ones
	// Files that are archived, as PostgreSQL hands them over, not compressed, of a load that
	// is spread over the day.
	Archived           float64 `json:"archived_bytes_a_day"`            // wal_compression off
	ArchivedCompressed float64 `json:"archived_bytes_a_day_compressed"` // wal_compression lz4
}

// RoleNeed is the memory of the processes with one role.
type RoleNeed struct {
	Processes

	EachMiB     float64 `json:"each_mib"`
	Connections int     `json:"connections_each"`
}

// CPU is processors in use, 1 being all of one.
type CPU struct {
	Name    string  `json:"name"`
	Average float64 `json:"average"`
	Peak    float64 `json:"peak"`
}

const day = 24 * time.Hour

// Estimate reckons what a load needs.
func (l *Load) Estimate() *Estimate {
	e := &Estimate{
		Load: *l, RetentionDays: l.Retention.Hours() / 24, Checkpoints: float64(day) / float64(l.CheckpointTimeout),
		Entries: l.EntriesPerDay * l.Years * daysAYear, Measured: Measured,
	}
	e.disk()
	e.wal()
	for _, p := range l.Processes {
		c := Role(p.Role)
		e.Connections += p.Count * c.Connections
		e.MemoryMiB += float64(p.Count) * c.BusyMiB
		e.Memory = append(e.Memory, RoleNeed{p, c.BusyMiB, c.Connections})
	}
	e.MaxConnections = e.Connections + otherConnections
	e.processors()
	return e
}

// otherConnections are for commands (append, verify and backups, eight or nine each), for
// people, and those that PostgreSQL reserves for superusers.
const otherConnections = 30

const daysAYear = 365.25

// A day of deliveries, and one of requests, is removed as a whole, once all of it is
// old.
const (
	requestDays = 31
	partialDay  = 1
)

func (l *Load) eventsPerDay() float64     { return l.EntriesPerDay * EventsPerEntry }
func (l *Load) deliveriesPerDay() float64 { return l.eventsPerDay() * l.WebhooksPerEvent }
func (l *Load) requestsPerDay() float64   { return l.RequestsPerSecond * day.Seconds() }

// kept is how many of a kind there are at the end.
func (e *Estimate) kept(k Kind) float64 {
	age := e.Load.Years * daysAYear
	switch k {
	case Delivery:
		return e.Load.deliveriesPerDay() * min(age, e.RetentionDays+partialDay)
	case Request:
		return e.Load.requestsPerDay() * min(age, requestDays+partialDay)
	default:
		return e.Entries
	}
}

func (e *Estimate) disk() {
	e.Disk = []Group{
		{"log", "entries, for ever", 0}, {"read models", "entries, for ever", 0},
		{"deliveries", "deliveries, for the retention", 0}, {"request log", "requests, for 31 days", 0},
	}
	for _, t := range Tables() {
		i := 1
		switch {
		case t.Per == Delivery:
			i = 2
		case t.Per == Request:
			i = 3
		case t.Name == logTable:
			i = 0
		}
		bytes := e.kept(t.Per) * (t.Heap + t.Indexes)
		e.Disk[i].Bytes += bytes
		e.Database += bytes
	}
}

func (e *Estimate) wal() {
	l, c := &e.Load, WALCosts()
	perDay := l.EntriesPerDay*(c.Append+c.Project) + l.deliveriesPerDay()*c.Deliver + l.requestsPerDay()*c.Request
	between := l.EntriesPerDay / e.Checkpoints / float64(max(1, l.Workspaces))
	plain, compressed := c.fullPages(between)
	e.WAL.Plain = perDay + l.EntriesPerDay*plain
	e.WAL.Compressed = perDay + l.EntriesPerDay*compressed
	// PostgreSQL begins a checkpoint when it has written about half of max_wal_size.
	plainAtPeak, _ := c.fullPages(between * l.Peak)
	e.WAL.MaxWALSize = max(leastMaxWALSize, 2*l.Peak/e.Checkpoints*(perDay+l.EntriesPerDay*plainAtPeak))
	e.WAL.Archived, e.WAL.ArchivedCompressed = l.archived(e.WAL.Plain), l.archived(e.WAL.Compressed)
}

// segment is a file of the write-ahead log, in bytes: PostgreSQL's default.
const segment = 16 << 20

// archived is what a day's write-ahead log is in files. PostgreSQL hands over whole files,
// also one that is not full at every archive_timeout; processes that serve always write a
// little, such as their leases, so that it is never without one.
func (l *Load) archived(perDay float64) float64 {
	if l.ArchiveTimeout <= 0 {
		return perDay
	}
	return max(perDay, segment*float64(day)/float64(l.ArchiveTimeout))
}

// leastMaxWALSize is PostgreSQL's default.
const leastMaxWALSize = 1 << 30

// fullPages is what full pages add to an entry when each workspace has so many between
// two checkpoints.
func (c *WAL) fullPages(entries float64) (plain, compressed float64) {
	p := c.Pages
	if entries <= float64(p[0].Entries) {
		return p[0].Plain, p[0].Compressed
	}
	for i := 1; i < len(p); i++ {
		if entries > float64(p[i].Entries) {
			continue
		}
		low, high := p[i-1], p[i]
		share := math.Log(entries/float64(low.Entries)) / math.Log(float64(high.Entries)/float64(low.Entries))
		between := func(a, b float64) float64 { return a * math.Pow(b/a, share) }
		return between(low.Plain, high.Plain), between(low.Compressed, high.Compressed)
	}
	// Beyond, it is taken as no less: new pages come with new entries.
	last := p[len(p)-1]
	return last.Plain, last.Compressed
}

func (e *Estimate) processors() {
	c := CPUCosts()
	entries, deliveries := e.Load.EntriesPerDay/day.Seconds(), e.Load.deliveriesPerDay()/day.Seconds()
	requests := e.Load.RequestsPerSecond
	add := func(name string, microseconds float64) {
		e.CPU = append(e.CPU, CPU{name, microseconds / 1e6, microseconds / 1e6 * e.Load.Peak})
	}
	add("PostgreSQL", entries*(c.AppendServer+c.ProjectServer)+deliveries*c.DeliverServer+requests*c.RequestServer)
	add(RoleProject, entries*c.Project)
	add(RoleDeliver, deliveries*c.Deliver)
	add(RoleAPI, requests*c.Request)
}

// GrowsWithEntries tells whether a table is one of those that keep something for every
// entry, for ever.
func GrowsWithEntries(table string) bool {
	for _, t := range Tables() {
		if t.Name == table {
			return t.Per == Entry
		}
	}
	return false
}

// BytesPerEntry is what an entry takes for ever, in the log and the read models.
func BytesPerEntry() (bytes float64) {
	for _, t := range Tables() {
		if t.Per == Entry {
			bytes += t.Heap + t.Indexes
		}
	}
	return bytes
}
