//go:build outside

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// scrape are the series of /metrics by name and labels, with the types of the metrics.
type scrape struct {
	at     time.Time
	values map[string]float64
	types  map[string]string
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (ledgerfeed_\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`^(ledgerfeed_\w+)(?:\{([^}]*)\})? (\S+)$`)
)

// up is what Prometheus itself says of a process: whether it answered.
const up = `up{job="ledgerfeed",instance="tried"}`

// scrapeOf reads the metrics of a process; of one that is gone there are none.
func scrapeOf(t *testing.T, admin string) scrape {
	t.Helper()
	s := scrape{time.Now(), map[string]float64{up: 0}, map[string]string{"up": "gauge"}}
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/metrics", http.NoBody))(t)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return s
	}
	defer func() { _ = resp.Body.Close() }()
	s.values[up] = 1
	for line := range strings.Lines(string(testkit.Must(io.ReadAll(resp.Body))(t))) {
		line = strings.TrimSpace(line)
		if m := typeLine.FindStringSubmatch(line); m != nil {
			s.types[m[1]] = m[2]
		} else if m := sampleLine.FindStringSubmatch(line); m != nil {
			labels := strings.TrimSuffix(m[2], ",")
			if labels != "" {
				labels += ","
			}
			s.values[m[1]+"{"+labels+`instance="tried"}`] = testkit.Must(strconv.ParseFloat(m[3], 64))(t)
		}
	}
	return s
}

// tried is an instance that a runbook is tried on.
type tried struct {
	*testing.T

	alert, url, admin, api string
	serving                *process
	settings               []string
	files                  int // the limit of open files; 0: that of this process
	conn                   *pgx.Conn
	cases                  *cases
}

// cases are what Prometheus judges in the end: its own rules, on what the instances said.
type cases struct {
	mu   sync.Mutex
	text strings.Builder // tests of rules; guarded by mu
}

// step is the time from one scrape by Prometheus to the next.
const step = 30 * time.Second

// patience is when a rule is judged: an hour after the time that its alert is given.
func (x *tried) patience(rules string) time.Duration {
	x.Helper()
	_, rule, _ := strings.Cut(rules, "- alert: "+x.alert+"\n")
	rule, _, _ = strings.Cut(rule, "- alert: ")
	given := time.Duration(0)
	if m := regexp.MustCompile(`\sfor: (\w+)`).FindStringSubmatch(rule); m != nil {
		given = testkit.Must(time.ParseDuration(m[1]))(x.T)
	}
	return given + time.Hour
}

// judge adds a test: would the alert fire if what happened from one scrape to the next
// went on happening, in every step?
func (x *tried) judge(what string, before, after scrape, fires bool) {
	x.cases.mu.Lock()
	defer x.cases.mu.Unlock()
	rules := read(x.T, "../../packaging/prometheus/ledgerfeed.rules.yaml")
	used, at := regexp.MustCompile(`\b(ledgerfeed_\w+|up\b)`).FindAllString(rules, -1), x.patience(rules)
	steps := "x" + strconv.Itoa(int(at/step))
	series := make([]string, 0, len(after.values))
	for name, value := range after.values {
		metric, _, _ := strings.Cut(name, "{")
		if !slices.Contains(used, metric) {
			continue
		}
		values := strconv.FormatFloat(value, 'f', -1, 64) + steps
		switch kind := after.types[metric]; {
		case strings.HasSuffix(metric, "_timestamp_seconds"): // promtool's time begins at 0, and is now
			moves := "+0"
			if value != before.values[name] {
				moves = fmt.Sprintf("+%d", int(step.Seconds()))
			}
			values = strconv.FormatFloat(value-float64(after.at.Unix()), 'f', -1, 64) + moves + steps
		case kind == "counter" || kind == "": // the series of a histogram have names of their own
			values = "0+" + strconv.FormatFloat(value-before.values[name], 'f', -1, 64) + steps
		}
		series = append(series, fmt.Sprintf("      - {series: '%s', values: '%s'}\n", name, values))
	}
	slices.Sort(series)
	expected := "[]"
	if fires {
		expected = "[{labels: '{}', value: 1}]"
	}
	fmt.Fprintf(&x.cases.text, "  - name: %q\n    interval: %v\n    input_series:\n%s    promql_expr_test:\n      - expr: 'count(count by (alertname) (ALERTS{alertname=\"%s\",alertstate=\"firing\"}))'\n        eval_time: %s\n        exp_samples: %s\n",
		x.alert+": "+what, step, strings.Join(series, ""), x.alert, at, expected)
}

// serve starts the instance with some roles.
func (x *tried) serve(roles string) {
	x.Helper()
	c := command(x.T, x.url, "serve", "--roles", roles)
	c.Env = append(c.Env, x.settings...)
	if x.files > 0 {
		c = fewDescriptors(x.T, c, x.files)
	}
	x.serving = startProcess(x.T, c)
	x.admin = strings.TrimSpace(x.serving.await("for=admin url="))
	if strings.Contains(roles, "api") {
		x.api = apiOf(x.serving)
	}
}

// exec does what breaks the instance, or mends the cause, in the database.
func (x *tried) exec(sql string) {
	x.Helper()
	if _, err := x.conn.Exec(x.Context(), sql); err != nil {
		x.Fatalf("%s: %v", sql, err)
	}
}

// hasOnItsPage is that the alert's section says something.
func (x *tried) hasOnItsPage(text string) {
	x.Helper()
	_, section, _ := strings.Cut(read(x.T, "../../docs/operations/alerts.md"), "\n## "+x.alert+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(strings.Join(strings.Fields(section), " "), text) {
		x.Fatalf("the page of %s does not have %s", x.alert, text)
	}
}

// runs runs a command of the alert's page as it is written there, with a workspace.
func (x *tried) runs(written string, code int, says string) {
	x.Helper()
	x.hasOnItsPage("`" + written)
	line := strings.NewReplacer("WORKSPACE", "acme", "--workspace W", "--workspace acme").Replace(written)
	c := command(x.T, x.url, strings.Fields(strings.TrimPrefix(line, "ledgerfeed "))...)
	c.Env = append(c.Env, x.settings...)
	r := runCommand(x.T, c)
	if r.code != code || !strings.Contains(r.out+r.errOut, says) {
		x.Errorf("%s: exit %d, want %d and %q in:\n%s%s", line, r.code, code, says, r.out, r.errOut)
	}
}

// runAlso runs a command that the page names without its arguments.
func (x *tried) runAlso(args ...string) string {
	x.Helper()
	return succeed(x.T, x.url, args...)
}

// append appends a line of acme's.
func (x *tried) append(typ, data string) {
	x.Helper()
	c := command(x.T, x.url, "append")
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"workspace_id":"acme","type":%q,"data":%s}`, typ, data))
	if r := runCommand(x.T, c); r.code != cli.ExitDone {
		x.Fatalf("%+v", r)
	}
}

// until waits until a metric is as it should be.
func (x *tried) until(name string, ok func(float64) bool) scrape {
	x.Helper()
	var s scrape
	testkit.Within(x.T, 3*time.Minute, func() error {
		flow.Sleep(x.Context(), scrapeEvery)
		s = scrapeOf(x.T, x.admin)
		for series, value := range s.values {
			if strings.HasPrefix(series, name) && ok(value) {
				return nil
			}
		}
		return errors.New(name + " is not as it should be")
	})
	return s
}

// scrapeEvery is seldom enough that instances are busy with what is tried, not with
// answering scrapes: most of what is waited for comes with the next reading of the state,
// every 15 seconds.
const scrapeEvery = 250 * time.Millisecond

func above(limit float64) func(float64) bool { return func(v float64) bool { return v > limit } }
func zero(v float64) bool                    { return v == 0 }

// older makes an entry that waits be appended some time ago, which a test cannot wait for.
func (x *tried) older(ago string) {
	x.Helper()
	x.exec(`ALTER TABLE event_log DISABLE TRIGGER event_log_append_only`)
	x.exec(`UPDATE event_log SET appended_at = appended_at - interval '` + ago + `'`)
	x.exec(`ALTER TABLE event_log ENABLE TRIGGER event_log_append_only`)
}

// runbooks break an instance as each alert says, and mend it by the alert's page.
func runbooks() map[string]func(*tried) {
	return map[string]func(*tried){
		"LedgerfeedDown": tryDown, "LedgerfeedRoleGone": tryRoleGone, "LedgerfeedProcessDown": tryProcessDown,
		"LedgerfeedNotReady": tryNotReady, "LedgerfeedAPIErrors": tryAPIErrors, "LedgerfeedStale": tryStale,
		"LedgerfeedQuarantined": tryQuarantined, "LedgerfeedReadModelsDiffer": tryReadModelsDiffer, "LedgerfeedUndelivered": tryUndelivered,
		"LedgerfeedAnomalies": tryAnomalies, "LedgerfeedDeadLetters": tryDeadLetters, "LedgerfeedWebhooksFail": tryWebhooksFail, "LedgerfeedNotificationsInterrupted": tryNotifications,
		"LedgerfeedAPISlow": tryAPISlow, "LedgerfeedPoolBusy": tryPoolBusy, "LedgerfeedConnectionsRefused": tryConnectionsRefused, "LedgerfeedDatabaseFull": tryDatabaseFull,
		"LedgerfeedMailFails": tryMailFails, "LedgerfeedCertificateExpires": tryCertificateExpires, "LedgerfeedStateUnknown": tryStateUnknown,
		"LedgerfeedTreesBehind": tryTreesBehind, "LedgerfeedWitnessRefuses": tryWitnessRefuses, "LedgerfeedWitnessAway": tryWitnessAway,
	}
}

// TestRunbooks breaks instances in the ways that the alerts are about, has Prometheus
// judge by its rules what they say of themselves, and mends them with what the pages say.
// How many instances there are at once is go test's -parallel; they wait more than they work.
func TestRunbooks(t *testing.T) {
	judged := &cases{}
	t.Run("instances", func(t *testing.T) {
		for alert, try := range runbooks() {
			t.Run(alert, func(t *testing.T) {
				t.Parallel()
				x := &tried{T: t, alert: alert, url: testkit.NewDatabase(t), cases: judged}
				x.conn = testkit.Must(pgx.Connect(t.Context(), x.url))(t)
				t.Cleanup(func() { _ = x.conn.Close(t.Context()) })
				succeed(t, x.url, "workspace", "create", "--id", "acme", "--name", "Acme")
				x.append("client.recorded", `{"client_id":"cl_1","name":"Blue Door"}`)
				x.append("invoice.recorded", `{"invoice_id":"in_1","number":"1","client_id":"cl_1","period":"2026-10","gross_amount":"420.00","currency":"EUR"}`)
				try(x)
			})
		}
	})
	rules := testkit.Must(filepath.Abs("../../packaging/prometheus/ledgerfeed.rules.yaml"))(t)
	file := filepath.Join(t.TempDir(), "tried.yaml")
	text := fmt.Sprintf("rule_files: [%s]\nevaluation_interval: %v\ngroup_eval_order: [ledgerfeed-objectives, ledgerfeed-alerts]\ntests:\n%s", rules, step, judged.text.String())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func tryDown(x *tried) {
	x.serve("api,project")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.serving.kill()
	gone := scrapeOf(x.T, x.admin)
	x.judge("broken", gone, gone, true)
	x.runs("ledgerfeed doctor", cli.ExitFailed, "no process with the role api or project is connected")
	x.serve("api,project")
	mended := x.until("ledgerfeed_ready", above(0))
	x.judge("mended", mended, mended, false)
}

func tryNotReady(x *tried) {
	x.serve("api,project")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.exec(`ALTER FUNCTION log_position_since(text, timestamptz) RENAME TO gone`)
	broken := x.until("ledgerfeed_ready", zero)
	x.judge("broken", broken, broken, true)
	if status, text := bodyOf(x.T, x.admin+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"role":"api","reason":`) {
		x.Errorf("/readyz does not say which role, and why: %d %s", status, text)
	}
	x.exec(`ALTER FUNCTION gone(text, timestamptz) RENAME TO log_position_since`)
	mended := x.until("ledgerfeed_ready", above(0))
	x.judge("mended", mended, mended, false)
}

func tryAPIErrors(x *tried) {
	x.serve("api,project")
	x.runAlso("status", "--wait")
	caller := newCaller(x.T, x.url, x.api, "acme")
	page := 0
	ask := func(status int) (before, after scrape) {
		before = scrapeOf(x.T, x.admin)
		for range 20 {
			page++ // none that is kept
			if a := testkit.Must(caller.get(fmt.Sprintf("/v1/invoices?limit=%d", page), ""))(x.T); a.status/100 != status/100 {
				x.Errorf("answered %d, want one like %d", a.status, status)
			}
		}
		return before, scrapeOf(x.T, x.admin)
	}
	before, after := ask(http.StatusOK)
	x.judge("sound", before, after, false)
	x.exec(`ALTER TABLE invoice RENAME TO gone`)
	before, after = ask(http.StatusServiceUnavailable)
	x.judge("broken", before, after, true)
	x.exec(`ALTER TABLE gone RENAME TO invoice`)
	testkit.Eventually(x.T, func() error {
		if a := testkit.Must(caller.get("/v1/invoices?limit=100", ""))(x.T); a.status != http.StatusOK {
			return fmt.Errorf("answered %d", a.status)
		}
		return nil
	})
	before, after = ask(http.StatusOK)
	x.judge("mended", before, after, false)
}

func tryStale(x *tried) {
	x.serve("api")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.older("20 seconds")
	broken := x.until("ledgerfeed_projection_lag_seconds", above(10))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed status", cli.ExitDone, "behind")
	projecting := startProcess(x.T, command(x.T, x.url, "serve", "--roles", "project"))
	mended := x.until("ledgerfeed_projection_lag_seconds", zero)
	x.judge("mended", mended, mended, false)
	projecting.stop()
}

func tryQuarantined(x *tried) {
	x.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the invoice in_1 cannot be stored'; END $$`)
	x.serve("api,project")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.exec(`CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON invoice FOR EACH ROW EXECUTE FUNCTION refuse()`)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	broken := x.until("ledgerfeed_quarantined_workspaces", above(0))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed quarantine show WORKSPACE", cli.ExitDone, "the invoice in_1 cannot be stored")
	x.exec(`DROP TRIGGER refuse ON invoice`)
	x.runs("ledgerfeed quarantine retry WORKSPACE", cli.ExitDone, "")
	mended := x.until("ledgerfeed_quarantined_workspaces", zero)
	x.judge("mended", mended, mended, false)
	x.runAlso("verify", "--workspace", "acme")
}

func tryReadModelsDiffer(x *tried) {
	x.settings = []string{"LEDGERFEED_AUDIT_EVERY=1s"}
	x.serve("api,project")
	x.runAlso("status", "--wait")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.exec(`UPDATE invoice SET base = replace(base, '420.00', '999.00')`)
	broken := x.until("ledgerfeed_differing_workspaces", above(0))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed verify --workspace W", cli.ExitFailed, "in_1")
	x.runs("ledgerfeed rebuild --workspace W", cli.ExitDone, "")
	x.runAlso("verify", "--workspace", "acme")
	mended := x.until("ledgerfeed_differing_workspaces", zero)
	x.judge("mended", mended, mended, false)
}

// hook makes a webhook of acme's and returns its receiver.
func (x *tried) hook() *testkit.Receiver {
	x.Helper()
	receiver := testkit.NewReceiver(x.T, nil)
	x.settings = []string{"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(x.T), "LEDGERFEED_RETRY_SCHEDULE=2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s,2s"}
	c := command(x.T, x.url, "webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "all", "--json")
	c.Env = append(c.Env, x.settings...)
	if r := runCommand(x.T, c); r.code != cli.ExitDone {
		x.Fatalf("%+v", r)
	}
	return receiver
}

func tryUndelivered(x *tried) {
	x.hook()
	x.serve("api,project")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	x.runAlso("status", "--wait")
	x.older("2 minutes")
	broken := x.until("ledgerfeed_delivery_lag_seconds", above(60))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed status", cli.ExitDone, "WEBHOOK")
	c := command(x.T, x.url, "serve", "--roles", "deliver")
	c.Env = append(c.Env, x.settings...)
	delivering := startProcess(x.T, c)
	mended := x.until("ledgerfeed_delivery_lag_seconds", zero)
	x.judge("mended", mended, mended, false)
	delivering.stop()
}

func tryWebhooksFail(x *tried) {
	receiver := x.hook()
	x.serve("api,project,deliver")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	receiver.Answer(http.StatusInternalServerError)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	broken := x.until(`ledgerfeed_webhooks{state="failing"`, above(0))
	x.judge("broken", broken, broken, true)
	receiver.Answer(http.StatusOK) // nothing is to be done: it is tried again
	mended := x.until(`ledgerfeed_webhooks{state="failing"`, zero)
	x.judge("mended", mended, mended, false)
}

func tryAnomalies(x *tried) {
	x.serve("api,project")
	x.runAlso("status", "--wait")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	x.append("invoice.issued", `{"invoice_id":"in_unknown","invoice_number":"2","amount":"1.00"}`)
	broken := x.until("ledgerfeed_anomalies_waiting", above(0))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed anomaly list", cli.ExitDone, "invoice.issued")
	x.runAlso("anomaly", "show", "acme")
	x.runAlso("anomaly", "acknowledge", "acme", "--all", "--note", "told the producer")
	mended := x.until("ledgerfeed_anomalies_waiting", zero)
	x.judge("mended", mended, mended, false)
}

func tryDeadLetters(x *tried) {
	x.settings = []string{"LEDGERFEED_INGEST_URL=" + x.url, "LEDGERFEED_CREATE_WORKSPACES=false"}
	x.serve("ingest")
	sound := x.until("ledgerfeed_ingest_dead_letters", zero)
	x.judge("sound", sound, sound, false)
	x.exec(`INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id)
		VALUES ('m1', '{"workspace_id":"shop","type":"client.recorded","data":{"client_id":"c","name":"n"}}', '{}', pg_current_xact_id()), ('m2', '[]', '{}', pg_current_xact_id())`)
	broken := x.until("ledgerfeed_ingest_dead_letters", above(1))
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed ingest dead list", cli.ExitDone, "there is no workspace shop")
	x.runAlso("workspace", "create", "--id", "shop")
	x.runs("ledgerfeed ingest dead retry --all", cli.ExitFailed, "want an entry")
	x.hasOnItsPage("`ingest dead drop`")
	c := command(x.T, x.url, "ingest", "dead", "drop", "--all", "--yes")
	c.Env = append(c.Env, x.settings...)
	if r := runCommand(x.T, c); r.code != cli.ExitDone {
		x.Errorf("%+v", r)
	}
	mended := x.until("ledgerfeed_ingest_dead_letters", zero)
	x.judge("mended", mended, mended, false)
}

// TestEveryRunbookIsTried: each alert has a runbook in the table, and the table names no other.
func TestEveryRunbookIsTried(t *testing.T) {
	t.Parallel()
	var alerts []string
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)`).FindAllStringSubmatch(read(t, "../../packaging/prometheus/ledgerfeed.rules.yaml"), -1) {
		alerts = append(alerts, m[1])
	}
	slices.Sort(alerts)
	alerts = slices.Compact(alerts) // an alert may have a rule for each severity
	if tried := slices.Sorted(maps.Keys(runbooks())); !slices.Equal(tried, alerts) {
		t.Errorf("the runbooks of\n%q are tried, the alerts are\n%q", tried, alerts)
	}
}
