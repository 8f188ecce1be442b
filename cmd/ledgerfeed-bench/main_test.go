package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"log --scale much", `invalid argument "much"`},
		{"log --scale 0", "--scale is 0: want a number above 0"},
		{"read --only pages,nonsense", `--only is "nonsense": want one or more of pages,`},
		{"nonsense", `unknown command "nonsense"`},
	} {
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), strings.Fields(c.args), &out, &errOut); code != 2 || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("%s: exit %d, want 2 and %q in:\n%s", c.args, code, c.says, errOut.String())
		}
	}
}
