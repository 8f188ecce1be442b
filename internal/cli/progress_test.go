package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// There is a line every few seconds, and none after the end.
func TestShowProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := ShowProgress(&out, "verify", func(took time.Duration) string { return took.String() })
		<-time.After(2*ProgressEvery + ProgressEvery/2) // of the test's own time
		stop()
		<-time.After(2 * ProgressEvery)
		if got, want := out.String(), "verify: 5s\nverify: 10s\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
