package texts

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "1d0s": 24 * time.Hour, "-5m": -5 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "soon", "30", "30 d", "-1d", "+1d", "1.5d", "1d2d", "1d-2h", "1d+2h", "1dx", "12h1d", "106752d", "106751d24h", "99999999999999999999d"} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), "is not a time such as") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Whatever Go writes is read as Go reads it, and days in front add up.
func TestParseDurationAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.IntRange(0, 10_000).Draw(t, "days")
		rest := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "rest"))
		text := rest.String()
		if got, err := ParseDuration(text); err != nil || got != rest {
			t.Fatalf("%s: %v, %v", text, got, err)
		}
		text = strconv.Itoa(days) + "d" + text
		if got, err := ParseDuration(text); err != nil || got != time.Duration(days)*day+rest {
			t.Fatalf("%s: %v, %v", text, got, err)
		}
	})
}

func TestDurationFlag(t *testing.T) {
	t.Parallel()
	var f DurationFlag
	if f.String() != "" || f.Type() != "duration" {
		t.Errorf("no flag is %q, a %s", f.String(), f.Type())
	}
	if err := f.Set("2d"); err != nil || f.String() != "48h0m0s" {
		t.Errorf("2d is %s, %v", f.String(), err)
	}
	if err := f.Set("later"); err == nil {
		t.Error("later was accepted")
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for span, want := range map[time.Duration]string{
		72 * time.Hour: "3 days", 24 * time.Hour: "1 day", 36 * time.Hour: "36 hours", time.Hour: "1 hour", 90 * time.Second: "90 seconds",
		1500 * time.Millisecond: "1.5s", 0: "0s", -time.Hour: "-1h0m0s",
	} {
		if got := Duration(span); got != want {
			t.Errorf("%d: %q, want %q", span, got, want)
		}
	}
}
