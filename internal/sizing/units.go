// Package sizing knows what entries, deliveries and requests take, and reckons from it
// what an installation needs. The figures were measured by ledgerfeed-bench size, which
// holds new measurements against them; a test fails when a change of the schema made
// them wrong (docs/operations/sizing.md).
package sizing

// Measured says of what the figures of this package are.
const Measured = "23 November 2026, PostgreSQL 15 on 2 shared cores, by ledgerfeed-bench size"

// Kind is what a table grows with.
type Kind string

// The kinds.
const (
	Entry    Kind = "entry"    // of the log
	Delivery Kind = "delivery" // an event to a webhook, with one attempt
	Request  Kind = "request"  // to the API
)

// Table is what a table and its indexes take, in bytes for one of a kind.
type Table struct {
	Name          string
	Per           Kind
	Heap, Indexes float64
}

const logTable = "event_log"

// EventsPerEntry is how many of the scenario's entries are events of the feed.
const EventsPerEntry = 0.51

// Tables are the tables that grow. The read models are of the middle between logs of
// 2,000 and of 10,000 entries of a workspace, which are a sixth apart: the more entries
// there are of one time, the more rows each of them changes.
func Tables() []Table {
	return []Table{
		{logTable, Entry, 544, 314},
		{"time_entry", Entry, 258, 797},
		{"invoice", Entry, 75, 115},
		{"payment", Entry, 33, 44},
		{"charge", Entry, 14, 17},
		{"credit_move", Entry, 3.4, 2.4},
		{"removed_time_entry", Entry, 1.3, 3.5},
		{"client", Entry, 3.9, 0.8},
		{"closed_period", Entry, 1.6, 1.6},
		{"client_credit", Entry, 1.5, 0.4},
		{"contractor", Entry, 0.8, 0.6},
		{"removed_charge", Entry, 0.4, 0.9},
		{"removed_billed_charge", Entry, 0.4, 0.8},
		{"anomaly", Entry, 0.7, 0.4},
		{"webhook_delivery", Delivery, 316, 379},
		{"request_log", Request, 242, 387},
	}
}

// WAL is what steps write to the write-ahead log, in bytes.
type WAL struct {
	Append  float64 // an entry, in a transaction of its own
	Project float64 // an entry, as it comes
	Deliver float64 // a delivery
	Request float64 // a request
	Pages   []Pages
}

// Pages is what full pages add to an entry, in bytes: the first change of a page after a
// checkpoint writes the whole page.
type Pages struct {
	Entries           int     // of a workspace between two checkpoints
	Plain, Compressed float64 // without wal_compression, and with lz4
}

// WALCosts are what was measured.
func WALCosts() WAL {
	return WAL{
		Append: 1_380, Project: 4_400, Deliver: 880, Request: 740,
		Pages: []Pages{{1, 102_000, 27_500}, {4, 64_000, 16_600}, {16, 27_700, 6_930}, {64, 12_600, 3_120}},
	}
}

// Costs is processor time, in microseconds, of the program's processes and of the
// server's.
type Costs struct {
	AppendServer           float64 // an entry, in a transaction of its own; the producer's own time is not here
	Project, ProjectServer float64 // an entry, as it comes
	Deliver, DeliverServer float64 // a delivery over TLS, on a connection that stays open
	Request, RequestServer float64 // a page of 50 that is not in the cache
}

// CPUCosts are what was measured.
func CPUCosts() Costs {
	return Costs{AppendServer: 340, Project: 70, ProjectServer: 240, Deliver: 115, DeliverServer: 30, Request: 170, RequestServer: 150}
}

// RoleCost is what a process of ledgerfeed serve takes.
type RoleCost struct {
	Name             string
	IdleMiB, BusyMiB float64 // memory that is resident, at its peak under load
	Connections      int     // to the database, at most
}

// The roles of ledgerfeed serve, and the name of a process with all of them.
const (
	RoleAPI     = "api"
	RoleProject = "project"
	RoleDeliver = "deliver"
	RoleConsole = "console"
	AllRoles    = "all"
)

// Roles are the roles, and all of them in one process.
func Roles() []RoleCost {
	return []RoleCost{
		{AllRoles, 42, 210, 48},
		{RoleAPI, 37, 88, 23},
		{RoleProject, 27, 92, 18},
		{RoleDeliver, 29, 211, 13},
		{RoleConsole, 31, 55, 12},
	}
}

// Role is the cost of a role; zero where there is none of the name.
func Role(name string) RoleCost {
	for _, r := range Roles() {
		if r.Name == name {
			return r
		}
	}
	return RoleCost{}
}
