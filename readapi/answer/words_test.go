package answer

import (
	"testing"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func TestDetailsOfOne(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"This key may make 1 request a minute. Wait 1 second, then go on.":                                     TooManyRequests(access.Allowance{Limit: 1, Reset: 1}).Detail,
		"This key may make 120 requests a minute. Wait 59 seconds, then go on.":                                TooManyRequests(access.Allowance{Limit: 120, Reset: 59}).Detail,
		"This address has sent more than 20 refused keys within a minute. Wait 1 second and send a valid key.": TooManyRefusedKeys(1).Detail,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
