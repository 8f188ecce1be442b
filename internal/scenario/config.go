package scenario

import (
	"errors"
	"fmt"
	"time"
)

const (
	defaultClients     = 12
	defaultContractors = 8
	maxParties         = 10_000
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
	// before End. Both must be in the years 1970 to 9900.
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

// validate returns every mistake, in one error.
func (c Config) validate() error {
	var errs []error
	if !isID(c.WorkspaceID) {
		errs = append(errs, fmt.Errorf("workspace id %q: want 1 to 64 of A-Z a-z 0-9 _ -", c.WorkspaceID))
	}
	if c.Start.UTC().Year() < 1970 || c.End.UTC().Year() > 9900 {
		errs = append(errs, errors.New("span: want the years 1970 to 9900"))
	}
	if endMilli(c) <= startMilli(c) {
		errs = append(errs, fmt.Errorf("span: end %s is not a millisecond after start %s",
			c.End.Format(time.RFC3339Nano), c.Start.Format(time.RFC3339Nano)))
	}
	for _, size := range [...]struct {
		name string
		n    int
	}{{"clients", c.Clients}, {"contractors", c.Contractors}} {
		if size.n < 0 || size.n > maxParties {
			errs = append(errs, fmt.Errorf("%s %d: want 0 (the default) to %d", size.name, size.n, maxParties))
		}
	}
	if c.Entries < 0 {
		errs = append(errs, fmt.Errorf("entries %d: want 0 (all of the span) or more", c.Entries))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scenario: %w", err)
	}
	return nil
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

// isID reports whether s has the form of ids in the log contract.
func isID(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
