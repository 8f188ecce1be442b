package transfer

import (
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	m := &meter{verb: "append", total: 1000}
	m.done.Store(250)
	if got, want := m.line(10*time.Second), "250 of 1000 entries, 25/s, 30s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.done.Store(0)
	if got, want := m.line(time.Second), "0 of 1000 entries, 0/s, ? left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m = &meter{verb: "export"}
	m.done.Store(7)
	if got, want := m.line(7*time.Second), "7 entries, 1/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
