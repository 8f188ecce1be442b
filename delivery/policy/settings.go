package policy

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// Settings are the settings for webhooks that an operator can change (docs/contract/decisions.md,
// "Settings that tests and self-hosters may change"). A zero value means the default, except for
// the lists.
type Settings struct {
	// Brand is part of header names and of the User-Agent.
	Brand brand.Brand

	// Schedule is the waits between attempts. Nil: 1m,5m,30m,2h,6h,12h,24h.
	Schedule Schedule

	// TurnOffAfter is how long every attempt has to fail, for at least two different events,
	// before a webhook is turned off. Default 72h.
	TurnOffAfter time.Duration

	// SecretOverlap is how long messages are signed with the old secret as well
	// after a rotation. Default 24h.
	SecretOverlap time.Duration

	// Timeout bounds an attempt: name look-up, connection, TLS, headers and
	// body together. Default 10s.
	Timeout time.Duration

	// Retention is how long deliveries are kept, and how far back missed
	// events can be sent. Default 720h.
	Retention time.Duration

	// Allow lists ranges of addresses that are not public but may be connected to, for tests and
	// private installations.
	Allow []netip.Prefix

	// CAFile names a file with PEM certificates of authorities to trust in
	// addition to the system's. Empty: none.
	CAFile string
}

// WithDefaults returns the settings with defaults filled in. The error names a
// field with a negative time.
func (s Settings) WithDefaults() (Settings, error) {
	if s.Schedule == nil {
		s.Schedule = DefaultSchedule()
	}
	for _, d := range []struct {
		field *time.Duration
		def   time.Duration
		name  string
	}{
		{&s.TurnOffAfter, 72 * time.Hour, "TurnOffAfter"},
		{&s.SecretOverlap, 24 * time.Hour, "SecretOverlap"},
		{&s.Timeout, 10 * time.Second, "Timeout"},
		{&s.Retention, 720 * time.Hour, "Retention"},
	} {
		if *d.field == 0 {
			*d.field = d.def
		}
		if *d.field < 0 {
			return s, fmt.Errorf("policy: Settings.%s is below 0", d.name)
		}
	}
	return s, nil
}

// Policy returns the part of the settings that decides what follows an attempt.
func (s *Settings) Policy() Policy {
	return Policy{Schedule: s.Schedule, TurnOffAfter: s.TurnOffAfter}
}
