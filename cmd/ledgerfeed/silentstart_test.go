package main

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestStartsOverALinkThatGoesSilent: at whichever answer of the database its link begins to take
// everything and to deliver nothing, a start ends with an error that says so. What supervises the
// process starts it again; a process that hung would stay.
func TestStartsOverALinkThatGoesSilent(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	whole, to := testkit.Link(t, url)
	serving := startProcess(t, command(t, to, "serve"))
	serving.await("for=console")
	serving.kill()
	says := regexp.MustCompile(`did not answer within \d+s|no answer in time`)
	var ended atomic.Int32
	t.Cleanup(func() {
		if n := ended.Load(); n < 3 {
			t.Errorf("%d starts ended: the moments are not those of a start", n)
		}
	})
	// The last answers are of the first work after the start.
	for at := 1; at < whole.Answers(); at += testkit.Scale(12, 1) {
		t.Run("answer "+strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			link, to := testkit.Link(t, url)
			link.PartitionAt(at)
			starting := startProcess(t, command(t, to+"&connect_timeout=1", "serve"))
			began := func() bool { return strings.Contains(starting.log.String(), "for=console") }
			testkit.Eventually(t, func() error {
				select {
				case <-starting.done:
					return nil
				default:
				}
				if !began() {
					return errors.New("it neither serves nor ends:\n" + starting.log.String())
				}
				return nil
			})
			if began() {
				return // the start was over
			}
			ended.Add(1)
			if code := starting.wait(); code != cli.ExitFailed || !says.MatchString(starting.log.String()) || strings.Contains(starting.log.String(), "panic") {
				t.Errorf("status %d:\n%s", code, starting.log)
			}
		})
	}
}
