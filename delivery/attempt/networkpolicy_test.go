package attempt

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"code.dny.dev/ssrf"
)

// TestTheNetworkPolicyIsTheFilter: in Kubernetes, the network keeps webhooks away from
// the addresses that the filter refuses, and from no others.
func TestTheNetworkPolicyIsTheFilter(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/kustomize/base/networkpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(text), "name: ledgerfeed-deliver\n")
	var excepted []netip.Prefix
	for _, m := range regexp.MustCompile(`(?m)^ +- ([0-9a-f:.]+/\d+)$`).FindAllStringSubmatch(policy, -1) {
		excepted = append(excepted, netip.MustParsePrefix(m[1]))
	}
	refused := slices.Concat(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes, deniedPrefixes())
	byText := func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(excepted, byText)
	slices.SortFunc(refused, byText)
	if !slices.Equal(excepted, refused) {
		t.Errorf("the network policy excepts %v, the filter refuses %v", excepted, refused)
	}
	for _, open := range []string{"cidr: 0.0.0.0/0\n", "cidr: " + ssrf.IPv6GlobalUnicast.String() + "\n"} {
		if strings.Count(policy, open) != 1 {
			t.Errorf("the network policy does not open %s", open)
		}
	}
}
