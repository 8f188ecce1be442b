//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/fault"
)

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--only nonsense": `no kind of fault "nonsense"; want some of kill,`,
		"--for 0s":        "--for, --workspaces, --pace, --at-once and --shorter must be above 0",
		"--seed x":        `invalid argument "x"`,
	} {
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), strings.Fields(args), &out, &errOut); code != 2 || !strings.Contains(errOut.String(), says) {
			t.Errorf("%s: exit %d, want 2 and %q in:\n%s", args, code, says, errOut.String())
		}
	}
}

func TestKindsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	only := &options{only: []string{"kill", "cut"}, except: []string{"cut"}}
	if got := names(only.kinds(fault.Kinds())); len(got) != 1 || got[0] != "kill" {
		t.Errorf("--only kill,cut --except cut: %v", got)
	}
	if got := len((&options{}).kinds(fault.Kinds())); got != len(fault.Kinds()) {
		t.Errorf("without flags %d kinds", got)
	}
}
