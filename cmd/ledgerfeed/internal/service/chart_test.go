package service

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestTheChartCountsConnections: the Helm chart, which refuses more pods than the database
// has connections for, counts as many as a process opens.
func TestTheChartCountsConnections(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../packaging/helm/ledgerfeed/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	counts := regexp.MustCompile(`\$each := dict "api" (\d+) "project" (\d+) "deliver" (\d+) "console" (\d+) "relay" (\d+) "ingest" (\d+) "ingest-api" (\d+) }}(?s:.*?)\$pod := (\d+) }}(?s:.*?)\$pod = min \$pod \(add (\d+) \(len \.roles\)\) }}`).FindSubmatch(text)
	if counts == nil {
		t.Fatal("the chart does not count connections")
	}
	of := func(roles ...string) int { return mostOf(roles, defaultLists) }
	every := of() // what it has without any role
	for i, want := range []int{
		of(RoleAPI) - every, of(RoleProject) - every, of(RoleDeliver) - every, of(RoleConsole) - every, of(RoleRelay) - every, of(RoleIngest) - every, of(RoleIngestAPI) - every,
		every, LeastConnections() + spareConnections,
	} {
		if got, _ := strconv.Atoi(string(counts[i+1])); got != want {
			t.Errorf("%s: the chart counts %d, a process opens %d", counts[0], got, want)
		}
	}
}
