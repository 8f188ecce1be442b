package main

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

// TestMetrics: names and helps are as Prometheus wants them, the state of the service is
// among them, and rules and dashboards use no metric that does not exist.
func TestMetrics(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "append", fixture)
	c := command(t, url, "serve")
	signing, _ := newSigningKey(t)
	witness := witnesstest.New(t, "witness.example.com/w1").VerifierKey
	c.Env = append(c.Env, "LEDGERFEED_SIGNING_KEY="+signing, "LEDGERFEED_WITNESSES="+witness+"=http://127.0.0.1:1")
	serving := startProcess(t, c)
	admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
	succeed(t, url, "status", "--wait")
	statusOf(t, apiOf(serving)+"/v1/me")
	status, text := 0, ""
	testkit.Eventually(t, func() error { // the state is read from time to time
		if status, text = bodyOf(t, admin+"/metrics"); !regexp.MustCompile(`(?m)^ledgerfeed_state_read_timestamp_seconds [1-9]`).MatchString(text) {
			return errors.New("the state has not been read")
		}
		return nil
	})
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if status != 200 || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, line := range []string{
		`ledgerfeed_ready 1`, `ledgerfeed_connections_evicted_total{listener="api"} 0`, `ledgerfeed_role{role="api"} 1`, `ledgerfeed_role{role="console"} 1`, `ledgerfeed_quarantined_workspaces 0`, `ledgerfeed_webhooks{state="off"} 0`,
		`ledgerfeed_pool_connections{pool="all",state="most"} 19`, `ledgerfeed_pool_connections{pool="api",state="most"} 9`, `ledgerfeed_api_request_seconds_count{class="4xx",route="other"} 1`,
		`ledgerfeed_append_seconds_count{call="append_tx",outcome="refused"} 0`, `ledgerfeed_append_entries_total{call="append",entry="new"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("without %s", line)
		}
	}
	areNative(t, admin, "ledgerfeed_api_request_seconds", "ledgerfeed_append_seconds", "ledgerfeed_webhook_attempt_seconds")
	if strings.Contains(text, `"agency-1"`) {
		t.Errorf("a metric is of one workspace:\n%s", text)
	}
	exists := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (ledgerfeed_\w+) (\w+)`).FindAllStringSubmatch(text, -1) {
		exists[m[1]] = true
		if m[2] == "histogram" {
			exists[m[1]+"_bucket"], exists[m[1]+"_count"], exists[m[1]+"_sum"] = true, true, true
		}
	}
	// Only with a certificate, with the role ingest, after the first wait and the first whole list.
	rare := []string{"ledgerfeed_tls_certificate_expiry_timestamp_seconds", "ledgerfeed_ingest_dead_letters", "ledgerfeed_api_waits_total", "ledgerfeed_api_whole_list_seconds_count"}
	for _, name := range rare {
		exists[name] = true
	}
	for _, file := range []string{
		"../../packaging/prometheus/ledgerfeed.rules.yaml", "../../packaging/grafana/ledgerfeed.json", "../../packaging/helm/ledgerfeed/values.yaml",
	} {
		used := regexp.MustCompile(`\bledgerfeed_\w+`).FindAllString(read(t, file), -1)
		if len(used) == 0 {
			t.Errorf("no metrics found in %s", file)
		}
		for _, name := range used {
			if !exists[name] {
				t.Errorf("%s uses %s, which does not exist", file, name)
			}
		}
	}
}

// areNative checks that histograms are native ones, too: the form of protocol buffers, here
// as text, says the schema of their buckets.
func areNative(t *testing.T, admin string, histograms ...string) {
	t.Helper()
	text := getWith(t, admin+"/metrics", http.Header{"Accept": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"}})
	for _, name := range histograms {
		_, family, _ := strings.Cut(text, `"`+name+`"`)
		family, _, _ = strings.Cut(family, "\nname:")
		if !regexp.MustCompile(`\bschema:\s*\d`).MatchString(family) {
			t.Errorf("%s is no native histogram", name)
		}
	}
}
