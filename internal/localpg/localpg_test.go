package localpg

import (
	"testing"
)

func TestDataSurvivesAStop(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustOpen(t, Config{DataDir: dir})
	if s.DataDir() != dir {
		t.Errorf("DataDir = %s, want %s", s.DataDir(), dir)
	}
	exec1(t, s.URL(), "create table kept as select 42 as v")
	mustClose(t, s)
	wantStopped(t, dir)
	select {
	case <-s.Done():
		t.Error("Done is closed although the server was asked to stop")
	default:
	}

	s = mustOpen(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "select v from kept"); got != "42" {
		t.Errorf("read %s back, want 42", got)
	}
	mustClose(t, s)
	mustClose(t, s) // a second time is allowed
}
