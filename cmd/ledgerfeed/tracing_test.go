package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// span is a span as OTLP writes it in JSON.
type span struct {
	Name         string `json:"name"`
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
}

// otlpReceiver takes traces as a collector does: OTLP over HTTP, in JSON.
type otlpReceiver struct {
	t      *testing.T
	server *httptest.Server

	mu    sync.Mutex
	spans []span
	text  strings.Builder // everything
}

func newOTLPReceiver(t *testing.T) *otlpReceiver {
	t.Helper()
	r := &otlpReceiver{t: t}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *otlpReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var sent struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []span `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Authorization") != "Bearer of traces" || json.Unmarshal(body, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(body)
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans { // the exporter writes ids in upper case
				r.spans = append(r.spans, span{s.Name, strings.ToLower(s.TraceID), strings.ToLower(s.SpanID), strings.ToLower(s.ParentSpanID)})
			}
		}
	}
}

// named returns the spans of a name.
func (r *otlpReceiver) named(name string) (found []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the span of a name, which is to be there once.
func (r *otlpReceiver) one(name string) span {
	r.t.Helper()
	found := r.named(name)
	if len(found) != 1 {
		r.t.Fatalf("%d spans %q:\n%s", len(found), name, r.text.String())
	}
	return found[0]
}

const (
	callersTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	producersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan    = "00f067aa0ba902b7"
)

// TestTraces: a caller's trace goes on in the API and its statements. A producer's goes on in the
// append and in the attempt to deliver, and the receiver is told of it. Lines of the log and
// exemplars name the traces. No span holds a secret, and nothing is traced that nobody asked for.
func TestTraces(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	traces := newOTLPReceiver(t)
	receiver := testkit.NewReceiver(t, nil)
	settings := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + traces.server.URL, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20of%20traces",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_TRACES_SAMPLER=parentbased_always_off",
		"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(t),
	}
	run := func(args ...string) string {
		t.Helper()
		c := command(t, url, args...)
		c.Env = append(c.Env, settings...)
		r := runCommand(t, c)
		if r.code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
		}
		return r.out
	}
	c := command(t, url, "serve")
	c.Env = append(c.Env, settings...)
	serving := startProcess(t, c)
	api := apiOf(serving)
	admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
	run("workspace", "create", "--id", "acme")
	caller := newCaller(t, url, api, "acme")
	run("webhook", "create", "--workspace", "acme", "--url", receiver.URL+"/T0KEN-of-the-receiver", "--events", "all")

	const invoice = `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_1","name":"Blue Door Ltd"}}
{"workspace_id":"acme","type":"invoice.recorded","data":{"invoice_id":"in_%[1]d","number":"%[1]d","client_id":"cl_1","period":"2026-10","gross_amount":"420.00","currency":"EUR"}}
{"workspace_id":"acme","type":"invoice.issued","data":{"invoice_id":"in_%[1]d","invoice_number":"%[1]d","amount":"420.00"}}
`
	for n, variable := range []string{"", "TRACEPARENT=00-" + producersTrace + "-" + callersSpan + "-01"} {
		c := command(t, url, "append", "--wait")
		c.Env = append(append(c.Env, settings...), variable)
		c.Stdin = strings.NewReader(fmt.Sprintf(invoice, n))
		if r := runCommand(t, c); r.code != 0 {
			t.Fatalf("append: exit %d\n%s%s", r.code, r.out, r.errOut)
		}
	}
	testkit.Eventually(t, func() error {
		if n := len(receiver.All()); n != 2 {
			return fmt.Errorf("%d messages have arrived, want 2", n)
		}
		return nil
	})
	for _, header := range []string{"", "00-" + callersTrace + "-" + callersSpan + "-01"} {
		headers := http.Header{"Authorization": {"Bearer " + caller.key}}
		if header != "" {
			headers.Set("Traceparent", header)
		}
		getWith(t, api+"/v1/invoices?limit=1&client_id=cl_of_a_customer", headers)
	}
	serving.await("trace_id=" + callersTrace)
	openMetrics := http.Header{"Accept": {"application/openmetrics-text; version=1.0.0"}} // the form that has exemplars
	if text := getWith(t, admin+"/metrics", openMetrics); !strings.Contains(text, `trace_id="`+callersTrace+`"`) {
		t.Error("no exemplar names the caller's trace")
	}
	awaitExemplar(t, admin, openMetrics, "ledgerfeed_webhook_attempt_seconds")
	if code := serving.stop(); code != 0 { // and sends what is left
		t.Fatalf("serve ended with %d:\n%s", code, serving.log)
	}

	request, appended, delivered := traces.one("GET /v1/invoices"), traces.one("append"), traces.named("webhook attempt")
	if request.TraceID != callersTrace || request.ParentSpanID != callersSpan {
		t.Errorf("the request's span: %v", request)
	}
	if !slices.ContainsFunc(traces.named("SELECT"), func(s span) bool { return s.ParentSpanID == request.SpanID }) {
		t.Error("the request has no span of a statement")
	}
	if appended.TraceID != producersTrace {
		t.Errorf("the append's span: %v", appended)
	}
	if len(delivered) != 1 || delivered[0].TraceID != producersTrace || delivered[0].ParentSpanID != appended.SpanID {
		t.Errorf("the spans of deliveries: %v", delivered)
	}
	told := map[string]bool{}
	for _, message := range receiver.All() {
		told[message.Header.Get("Traceparent")] = true
	}
	if want := "00-" + delivered[0].TraceID + "-" + delivered[0].SpanID + "-01"; len(told) != 2 || !told[want] {
		t.Errorf("receivers were told of %v, want %s among them", told, want)
	}
	for _, secret := range []string{caller.key, "T0KEN", "whsec_", "a key for all processes", "Blue Door", "420.00", "cl_of_a_customer", "Bearer", "127.0.0.1:"} {
		if strings.Contains(traces.text.String(), secret) {
			t.Errorf("the traces hold %q", secret)
		}
	}
}

// awaitExemplar returns when a bucket of a histogram names a trace: an attempt is counted
// after the receiver has its message.
func awaitExemplar(t *testing.T, admin string, openMetrics http.Header, histogram string) {
	t.Helper()
	named := regexp.MustCompile(`(?m)^` + histogram + `_bucket\{.*# \{trace_id="`)
	testkit.Eventually(t, func() error {
		if !named.MatchString(getWith(t, admin+"/metrics", openMetrics)) {
			return fmt.Errorf("no exemplar of %s names a trace", histogram)
		}
		return nil
	})
}

// getWith returns the body of an answer, which is to be a 200.
func getWith(t *testing.T, address string, headers http.Header) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = headers
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %d, %v", address, answer.StatusCode, err)
	}
	return string(text)
}

// TestTracesWithoutAReceiver: a collector that is away is logged once, and nothing waits
// for it.
func TestTracesWithoutAReceiver(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	c := command(t, url, "append", fixture)
	c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_on")
	r := runCommand(t, c)
	if r.code != 0 || strings.Count(r.errOut, "cannot send traces") != 1 {
		t.Errorf("exit %d:\n%s", r.code, r.errOut)
	}
}
