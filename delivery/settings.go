package delivery

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// Settings are what an operator may change about webhooks (docs/contract/decisions.md,
// "Webhooks"). The zero value of each field but the lists is replaced by its
// default. The tags are those of caarlos0/env.
type Settings struct {
	// Brand stands in the names of headers and in the User-Agent.
	Brand brand.Brand `env:"LEDGERFEED_BRAND"`

	// Schedule is the waits between attempts. Nil: 1m,5m,30m,2h,6h,12h,24h.
	Schedule Schedule `env:"LEDGERFEED_RETRY_SCHEDULE"`

	// TurnOffAfter is how long every attempt has to fail before a webhook is
	// turned off. Default 72h.
	TurnOffAfter time.Duration `env:"LEDGERFEED_TURN_OFF_AFTER"`

	// SecretOverlap is how long a rotated secret still signs beside the new
	// one. Default 24h.
	SecretOverlap time.Duration `env:"LEDGERFEED_SECRET_OVERLAP"`

	// Timeout bounds an attempt: name look-up, connection, TLS, headers and
	// body together. Default 10s.
	Timeout time.Duration `env:"LEDGERFEED_WEBHOOK_TIMEOUT"`

	// Retention is how long deliveries are kept, and how far back missed
	// events can be sent. Default 720h.
	Retention time.Duration `env:"LEDGERFEED_RETENTION"`

	// Allow opens address ranges that are not public, for tests and private
	// installations.
	Allow []netip.Prefix `env:"LEDGERFEED_WEBHOOK_ALLOW"`

	// CAFile holds PEM certificates of authorities that are trusted beside the
	// system's. Empty: none.
	CAFile string `env:"LEDGERFEED_WEBHOOK_CA_FILE"`
}

// withDefaults fills in what is not set and checks the rest.
func (s Settings) withDefaults() (Settings, error) {
	if s.Schedule == nil {
		s.Schedule = DefaultSchedule()
	}
	for _, d := range []struct {
		field *time.Duration
		def   time.Duration
		name  string
	}{
		{&s.TurnOffAfter, 72 * time.Hour, "LEDGERFEED_TURN_OFF_AFTER"},
		{&s.SecretOverlap, 24 * time.Hour, "LEDGERFEED_SECRET_OVERLAP"},
		{&s.Timeout, 10 * time.Second, "LEDGERFEED_WEBHOOK_TIMEOUT"},
		{&s.Retention, 720 * time.Hour, "LEDGERFEED_RETENTION"},
	} {
		if *d.field == 0 {
			*d.field = d.def
		}
		if *d.field < 0 {
			return s, fmt.Errorf("%s is below 0", d.name)
		}
	}
	return s, nil
}

func (s *Settings) policy() Policy {
	return Policy{Schedule: s.Schedule, TurnOffAfter: s.TurnOffAfter}
}
