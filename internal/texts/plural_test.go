package texts

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 webhooks fail", 1: "1 webhook fails", 2: "2 webhooks fail", 11: "11 webhooks fail", -1: "-1 webhooks fail"} {
		if got := Count(n, "webhook fails", "webhooks fail"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
