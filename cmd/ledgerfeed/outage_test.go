//go:build unix

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// leastOutages is how many parts of a service notice by themselves that the database is
// away: both consumers of the log, what finds webhooks, what renews the lease for delivering,
// what reads keys, and what exchanges request counts.
const leastOutages = 6

// TestAnOutageIsFewLines: while the database is away, whatever is tried again and again says
// once that it fails, and once that it works again.
func TestAnOutageIsFewLines(t *testing.T) {
	t.Parallel()
	server := pgserver.NewHost(t).Server("outage", "fsync=off")
	server.Initialize()
	server.Begin()
	server.Execute("postgres", "CREATE DATABASE ledgerfeed")
	serving := startProcess(t, command(t, server.URL(pgserver.Administrator, "ledgerfeed"), "serve"))
	serving.await("for=console")
	succeed(t, server.URL(pgserver.Administrator, "ledgerfeed"), "workspace", "create", "--id", "acme")
	server.Stop()
	// What is tried each second has failed several times when the last notices.
	testkit.Eventually(t, func() error {
		if o := readOutages(serving.log.String()); len(o.open) < leastOutages {
			return fmt.Errorf("%d parts say that they fail, want %d:\n%s", len(o.open), leastOutages, serving.log)
		}
		return nil
	})
	server.Begin()
	var o outagesInLog
	testkit.Eventually(t, func() error {
		o = readOutages(serving.log.String())
		for part, open := range o.open {
			if open {
				return errors.New("does not say that it works again: " + part)
			}
		}
		return nil
	})
	if len(o.wrong) > 0 {
		t.Errorf("%s\nin:\n%s", strings.Join(o.wrong, "\n"), serving.log)
	}
}

// outagesInLog is what a log says of outages. Each part of a service has outages of its own,
// and a second one when the database goes away in steps: that is no fault.
type outagesInLog struct {
	open  map[string]bool // by the message of the end and the consumer, whether it fails now
	wrong []string
}

// readOutages reads complete lines in the order in which they were written.
func readOutages(log string) outagesInLog {
	o := outagesInLog{open: map[string]bool{}}
	said := map[string]int{}
	whole := log[:strings.LastIndexByte(log, '\n')+1]
	for line := range strings.Lines(whole) {
		level, message, consumer, until := attribute(line, "level"), attribute(line, "msg"), attribute(line, "consumer"), attribute(line, "until")
		switch {
		case until != "":
			part := until + " " + consumer
			if o.open[part] {
				o.wrong = append(o.wrong, "said twice that it fails: "+line)
			}
			o.open[part] = true
		case level == "WARN" || level == "ERROR":
			if said[message+consumer]++; said[message+consumer] == 2 {
				o.wrong = append(o.wrong, "said twice: "+line)
			}
		default:
			if part := message + " " + consumer; o.open[part] {
				o.open[part] = false
			}
		}
	}
	return o
}

// attribute returns an attribute of a line of the log.
func attribute(line, name string) string {
	found := regexp.MustCompile(`(?:^| )` + name + `=("(?:[^"\\]|\\.)*"|\S+)`).FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return strings.Trim(found[1], `"`)
}
