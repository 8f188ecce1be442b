package scenario

import "time"

const (
	defaultClients     = 12
	defaultContractors = 8
	// entriesPerClient and entriesPerContractor give a small workspace few parties,
	// so that even ten entries are not all about parties.
	entriesPerClient     = 40
	entriesPerContractor = 60
)

// Config describes an agency. A size of zero means its default.
type Config struct {
	// WorkspaceID is the workspace of every line: 1 to 64 of A-Z a-z 0-9 _ -.
	WorkspaceID string
	// Seed selects the agency: its parties and everything that happens.
	Seed uint64
	// Start and End are the simulated span: lines are created from Start on and
	// before End, which comes after it.
	Start, End time.Time
	// Clients (default 12) and Contractors (default 8) size the agency. With
	// few Entries the defaults are smaller, down to one of each.
	Clients, Contractors int
	// Entries is the number of lines; 0 for as many as the span gives. Where it is
	// less than that, the stream ends early. Where it is more, every day has more
	// work, so that the lines are spread over the span.
	Entries int
}

// withDefaults sets the sizes that are zero.
func (c Config) withDefaults() Config {
	clients, contractors := defaultClients, defaultContractors
	if c.Entries > 0 {
		clients = max(1, min(clients, c.Entries/entriesPerClient))
		contractors = max(1, min(contractors, c.Entries/entriesPerContractor))
	}
	if c.Clients == 0 {
		c.Clients = clients
	}
	if c.Contractors == 0 {
		c.Contractors = contractors
	}
	return c
}

// startMilli is the first whole millisecond of the span.
func startMilli(c Config) int64 {
	ms := c.Start.UnixMilli()
	if c.Start.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// endMilli is the first millisecond that is no longer in the span.
func endMilli(c Config) int64 { return c.End.UnixMilli() }
