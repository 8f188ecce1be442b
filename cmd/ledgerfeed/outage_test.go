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
		for part, number := range o.open {
			if number != "" {
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
	open  map[string]string // by the message and the consumer, the number of the outage; empty: over
	wrong []string
}

// readOutages reads complete lines in the order in which they were written.
func readOutages(log string) outagesInLog {
	o := outagesInLog{open: map[string]string{}}
	said := map[string]bool{}
	for line := range strings.Lines(log[:strings.LastIndexByte(log, '\n')+1]) {
		part, number := attribute(line, "msg")+" "+attribute(line, "consumer"), attribute(line, "outage_number")
		warns := strings.Contains(line, " level=WARN ") || strings.Contains(line, " level=ERROR ")
		switch {
		case warns && number != "":
			if o.open[part] != "" {
				o.wrong = append(o.wrong, "said again before it worked: "+line)
			}
			o.open[part] = number
		case warns:
			if said[part] {
				o.wrong = append(o.wrong, "said twice: "+line)
			}
			said[part] = true
		case number != "":
			for part := range o.open {
				if o.open[part] == number {
					o.open[part] = ""
				}
			}
		}
	}
	return o
}

// attribute returns an attribute of a line of the log.
func attribute(line, name string) string {
	found := regexp.MustCompile(` ` + name + `=("(?:[^"\\]|\\.)*"|\S+)`).FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return found[1]
}
