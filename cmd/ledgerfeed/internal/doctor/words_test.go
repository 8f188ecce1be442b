package doctor

import (
	"strings"
	"testing"
)

func TestFindingsAboutOne(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := write(&out, []Finding{{Level: Error}, {Level: Warning}}); err != nil {
		t.Fatal(err)
	}
	for want, got := range map[string]string{
		"1 error, 1 warning\n":          out.String(),
		"enough for 1 day at the pace":  judgeFree("/d", 3<<30, 1<<30, 2<<30).Text,
		"enough for 2 days at the pace": judgeFree("/d", 4<<30, 1<<30, 2<<30).Text,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
