package policy

import (
	"testing"
	"time"
)

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	s, err := Settings{}.WithDefaults()
	if err != nil || s.Brand.String() != "SERVICE" || len(s.Schedule) != 7 || s.Timeout != 10*time.Second ||
		s.TurnOffAfter != 72*time.Hour || s.SecretOverlap != 24*time.Hour || s.Retention != 720*time.Hour {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = Settings{Schedule: Schedule{}, Timeout: time.Second}.WithDefaults()
	if err != nil || len(s.Schedule) != 0 || s.Timeout != time.Second {
		t.Errorf("what is set stays: %+v, %v", s, err)
	}
	if _, err := (Settings{Timeout: -1}).WithDefaults(); err == nil {
		t.Error("a negative time was accepted")
	}
}
