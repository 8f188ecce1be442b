//go:build outside && unix

package main

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// backupPage is docs/operations/backup.md, whose commands a drill runs as they are written.
type backupPage struct {
	t       *testing.T
	text    string
	replace *strings.Replacer // of the page's paths by the drill's
}

// block returns the n-th block of code, from 0, below a heading.
func (p *backupPage) block(heading string, n int) string {
	p.t.Helper()
	_, section, found := strings.Cut(p.text, "\n"+heading+"\n")
	if !found {
		p.t.Fatalf("the page has no heading %q", heading)
	}
	if at := strings.Index(section, "\n## "); at >= 0 {
		section = section[:at]
	}
	for range n {
		_, section, _ = strings.Cut(section, "```")
		_, section, _ = strings.Cut(section, "```")
	}
	_, section, _ = strings.Cut(section, "```")
	code, _, found := strings.Cut(section, "```")
	_, code, _ = strings.Cut(code, "\n") // behind the language
	if !found || strings.TrimSpace(code) == "" {
		p.t.Fatalf("%s has no block %d", heading, n)
	}
	return p.replace.Replace(code)
}

// newDrillHost is a host with a place for backups.
func newDrillHost(t *testing.T) *pgserver.Host {
	t.Helper()
	h := pgserver.NewHost(t)
	h.Mkdir("backup")
	h.Mkdir("backup/wal")
	return h
}

// drillServer is a server with its data in a directory of that name.
func drillServer(h *pgserver.Host, name string) *pgserver.Server {
	return h.Server(name, "max_connections=200")
}

// shell runs what the page says.
func shell(s *pgserver.Server, script string) string {
	return s.Run("bash", "-euo", "pipefail", "-c", script)
}

// initialize makes a server with these lines in its settings, and starts it.
func initialize(s *pgserver.Server, settings string) {
	s.Initialize()
	shell(s, "cat >>"+s.Data+"/postgresql.conf <<'END'\n"+settings+"\nEND\n")
	s.Begin()
}
