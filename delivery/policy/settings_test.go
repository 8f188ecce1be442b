package policy

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
)

func TestSettingsFromEnvironment(t *testing.T) {
	t.Parallel()
	parse := func(vars map[string]string) (s Settings, err error) {
		err = env.ParseWithOptions(&s, env.Options{Environment: vars})
		return s, err
	}
	s, err := parse(map[string]string{
		"LEDGERFEED_BRAND": "ACME", "LEDGERFEED_RETRY_SCHEDULE": "1s,2m", "LEDGERFEED_TURN_OFF_AFTER": "3s",
		"LEDGERFEED_SECRET_OVERLAP": "1h", "LEDGERFEED_WEBHOOK_TIMEOUT": "2s", "LEDGERFEED_RETENTION": "48h",
		"LEDGERFEED_WEBHOOK_ALLOW": "127.0.0.0/8,::1/128", "LEDGERFEED_WEBHOOK_CA_FILE": "/x.pem",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Brand.String() != "ACME" || !slices.Equal(s.Schedule, Schedule{time.Second, 2 * time.Minute}) || s.TurnOffAfter != 3*time.Second ||
		s.SecretOverlap != time.Hour || s.Timeout != 2*time.Second || s.Retention != 48*time.Hour || s.CAFile != "/x.pem" ||
		!slices.Equal(s.Allow, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}) {
		t.Errorf("%+v", s)
	}
	if s, err = parse(map[string]string{}); err != nil || s.Schedule != nil {
		t.Errorf("nothing set: %+v, %v", s, err)
	}
	if s, err = s.WithDefaults(); err != nil || s.Brand.String() != "SERVICE" || len(s.Schedule) != 7 || s.Timeout != 10*time.Second {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	for _, vars := range []map[string]string{
		{"LEDGERFEED_RETRY_SCHEDULE": "soon"}, {"LEDGERFEED_WEBHOOK_ALLOW": "127.0.0.1"}, {"LEDGERFEED_WEBHOOK_TIMEOUT": "10"},
	} {
		if _, err := parse(vars); err == nil {
			t.Errorf("%v was taken", vars)
		}
	}
}
