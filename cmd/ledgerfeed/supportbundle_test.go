//go:build full

package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// unpacked are the files of an archive, with their names and their order.
func unpacked(t *testing.T, path string) (files map[string]string, order []string) {
	t.Helper()
	file := testkit.Must(os.Open(path))(t)
	defer file.Close()
	archive := tar.NewReader(testkit.Must(gzip.NewReader(file))(t))
	files = map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, order
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(header.Name, "ledgerfeed-support/")
		files[name] = string(testkit.Must(io.ReadAll(archive))(t))
		order = append(order, name)
	}
}

// bundleManifest is the archive's list of its parts.
type bundleManifest struct {
	Database string
	Parts    []struct{ File, Error string }
	LeftOut  []string `json:"left_out"`
}

func manifestOf(t *testing.T, files map[string]string) (m bundleManifest, faults map[string]string) {
	t.Helper()
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		t.Fatal(err)
	}
	faults = map[string]string{}
	for _, p := range m.Parts {
		if _, there := files[p.File]; there == (p.Error != "") {
			t.Errorf("%s: in the archive %t, error %q", p.File, there, p.Error)
		}
		if p.Error != "" {
			faults[p.File] = p.Error
		}
	}
	return m, faults
}

// Secrets of an installation, and what else of its settings tells who it is.
const (
	plantedPassword = "hunter2-of-the-database"
	plantedKey      = "the key of a billing house in Ghent"
	plantedMail     = "mailpass-9431"
	plantedOIDC     = "oidcsecret-7753"
	plantedSigning  = "AQICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC"
)

func plantedSettings(admin string) []string {
	return []string{
		"LEDGERFEED_SECRET_KEY=" + plantedKey, "LEDGERFEED_SIGNING_KEY=PRIVATE+KEY+ledgerfeed+593cbc6f+" + plantedSigning, "LEDGERFEED_ADMIN_LISTEN=" + admin,
		"LEDGERFEED_SMTP_URL=smtp://mailer-1881:" + plantedMail + "@127.0.0.1:1", "LEDGERFEED_MAIL_FROM=finance@blue-door.example",
		"LEDGERFEED_OIDC_ISSUER=http://127.0.0.1:1/realm-of-blue-door", "LEDGERFEED_OIDC_CLIENT_ID=client-id-5512", "LEDGERFEED_OIDC_CLIENT_SECRET=" + plantedOIDC,
		"LEDGERFEED_OIDC_MAP=finance-people=agency-0:admin", "LEDGERFEED_BASE_URL=https://api.blue-door.example", "LEDGERFEED_TRUSTED_PROXIES=10.77.0.0/16",
		"LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8,10.78.0.0/16", "LEDGERFEED_RETENTION=876000h",
	}
}

// planted are strings that may not be in the archive: of the settings, of this test's
// sessions, and all that the tables hold of customers.
func planted(t *testing.T, conn *pgx.Conn, more ...string) (list []string) {
	t.Helper()
	list = append([]string{
		plantedPassword, plantedKey, plantedMail, plantedOIDC, plantedSigning, "mailer-1881", "blue-door", "client-id-5512", "finance-people", "10.77.", "10.78.", "127.0.0.1", "realm-of",
	}, more...)
	rows := testkit.Must(conn.Query(t.Context(), `
		SELECT table_name, column_name FROM information_schema.columns
		 WHERE table_schema = current_schema() AND data_type IN ('text', 'json', 'jsonb', 'ARRAY') AND table_name <> 'service_key' ORDER BY 1, 2`))(t)
	type column struct{ Table, Column string }
	columns := testkit.Must(pgx.CollectRows(rows, pgx.RowToStructByPos[column]))(t)
	seen := map[string]bool{}
	for _, c := range columns {
		rows := testkit.Must(conn.Query(t.Context(), fmt.Sprintf(`SELECT DISTINCT %s::text FROM %s WHERE %[1]s IS NOT NULL LIMIT 2000`,
			pgx.Identifier{c.Column}.Sanitize(), pgx.Identifier{c.Table}.Sanitize())))(t)
		for _, text := range testkit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t) {
			for _, one := range values(text) {
				if !seen[one] && tellsSomething(one) {
					seen[one] = true
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// values are the texts in a value: itself, or those in its JSON.
func values(text string) (list []string) {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return []string{text}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			list = append(list, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(v)
	return list
}

// vocabulary are words of the program (types, states, reasons, settings), dates without a day's
// time, and routes of the API.
var vocabulary = regexp.MustCompile(`^([a-z_.:*]+|\{[a-z_.:,]*\}|[0-9]{4}-[0-9]{2}(-[0-9]{2})?|[A-Z]+|/v1/[a-z{}/_-]+|GET|[0-9]+|LEDGERFEED_[A-Z_]+)$`)

func tellsSomething(value string) bool { return len(value) >= 6 && !vocabulary.MatchString(value) }

// TestSupportBundle: the archive has the parts that help, and nothing of what an operator
// may not give away: no secret, no setting that names somebody, no text from the tables.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "append", fixture)
	receiver := testkit.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "the receiver of Blue Door says no")
	})
	prepared := command(t, url, "webhook", "create", "--workspace", "agency-0", "--url", receiver.URL+"/hook-8864", "--events", "all", "--json")
	prepared.Env = append(prepared.Env, plantedSettings("127.0.0.1:0")...)
	created := runCommand(t, prepared)
	var hook struct{ Secret string }
	if err := json.Unmarshal([]byte(created.out), &hook); err != nil {
		t.Fatalf("%+v", created)
	}
	key := succeed(t, url, "key", "create", "--workspace", "agency-0", "--name", "reports of Blue Door", "--scopes", "events:read", "--json")
	program := command(t, url, "serve")
	program.Env = append(program.Env, append(plantedSettings("127.0.0.1:0"), "LEDGERFEED_WEBHOOK_CA_FILE="+testkit.CAFile(t), "LEDGERFEED_PPROF=true")...)
	serving := startProcess(t, program)
	admin := strings.TrimSpace(strings.TrimPrefix(serving.await("for=admin"), " url="))
	succeed(t, url, "status", "--wait")
	for i := range 3 {
		news := command(t, url, "append")
		news.Stdin = strings.NewReader(fmt.Sprintf(`{"workspace_id":"agency-0","type":"invoice.reversed","data":{"invoice_id":"invoice-of-blue-%d"}}`, i))
		if r := runCommand(t, news); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
	}
	receiver.Wait(t, 3)
	statusOf(t, apiOf(serving)+"/v1/me")

	conn := testkit.Must(pgx.Connect(t.Context(), url+"&application_name=reports-for-Blue-Door"))(t)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`SELECT 'statement of Blue Door'`,
		`UPDATE log_checkpoint SET failures = 3, error = 'cannot store 420.17 of Blue Door: ERROR: nothing (SQLSTATE 23505)', quarantined = true WHERE workspace_id = 'agency-0' AND consumer = 'read_models'`,
		`INSERT INTO log_failure (workspace_id, consumer, from_position, through_position, error_digest, error, times, first_at, last_at)
		 VALUES ('agency-0', 'read_models', 1, 2, 'd', 'amount 420.17 of Blue Door (SQLSTATE 23505)', 2, now(), now())`,
		`INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at, error) VALUES ('agency-0', 'm', 'w', 'Blue Door', 'text', now(), now(), '535 refused')`,
		`CREATE TABLE ledger_of_blue_door (id int)`, `CREATE ROLE role_of_blue_door_` + fmt.Sprint(os.Getpid()),
		`ALTER TABLE ledger_of_blue_door OWNER TO role_of_blue_door_` + fmt.Sprint(os.Getpid()),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, func() error { // counts of attempts are written once a second
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM webhook_hour`).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("no attempts are counted")
		}
		return err
	})
	forbidden := planted(t, conn, hook.Secret, keyOf(t, key), "reports-for", "statement of", "ledger_of", "role_of", receiver.URL, "hook-8864", "420.17")
	if len(forbidden) < 300 {
		t.Fatalf("%d texts are looked for: the test tests little", len(forbidden))
	}

	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	c := command(t, url+"&password="+plantedPassword, "support-bundle", "--goroutines", "-o", path)
	c.Env = append(c.Env, plantedSettings(strings.TrimPrefix(admin, "http://"))...)
	r := runCommand(t, c)
	if r.code != cli.ExitDone || !strings.Contains(r.out, "Look at it before you send it") {
		t.Fatalf("%+v", r)
	}
	files, order := unpacked(t, path)
	for name, text := range files {
		for _, one := range forbidden {
			if strings.Contains(text, one) {
				t.Errorf("%s has %q", name, one)
			}
		}
	}
	m, faults := manifestOf(t, files)
	if len(faults) > 0 || m.Database != "read" || len(m.LeftOut) == 0 || order[0] != "manifest.json" || len(order) != len(m.Parts)+1 {
		t.Errorf("the manifest: %+v, in the order %v", m, order)
	}
	for name, wanted := range map[string][]string{
		"version.json":  {`"go": "go1`},
		"settings.json": {`"LEDGERFEED_SECRET_KEY",` + "\n    \"value\": \"(set, not shown)\"", `"876000h"`},
		"doctor.json": {
			`"read models"`, "1 workspace waits before an entry that cannot be projected", `"level": "error"`, ", of which ", "no table has many", "days past the retention are removed",
			"the roles api, project, deliver, console are connected",
		},
		"readyz.json":              {`"ready": `},
		"metrics.txt":              {"\nledgerfeed_log_entries ", "\ngo_goroutines "},
		"goroutines.txt":           {"goroutine profile: total"},
		"postgresql.json":          {`"version": "PostgreSQL `},
		"postgresql_settings.json": {`"name": "fsync"`},
		"tables.json":              {`"name": "event_log"`},
		"indexes.json":             {`"name": "event_log_pkey"`},
		"sessions.json":            {`"application": "ledgerfeed serves `, `"application": "other"`},
		"status.json":              {`"quarantined": 1`},
		"workspaces.json":          {`"workspace": "workspace-`, `"error": "23505"`},
		"failures.json":            {`"error": "23505"`},
		"webhooks.json":            {`"failing": true`},
		"lags.json":                {`"webhook": "webhook-`},
		"attempts.json":            {`"attempts": `},
		"schema.json":              {`"migration": `},
		"anomalies.json":           {`"reason": `},
	} {
		for _, want := range wanted {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s does not have %s:\n%s", name, want, files[name])
			}
		}
	}
	// What doctor says of the biggest tables is left out where one of them is another's.
	if _, err := conn.Exec(t.Context(), `INSERT INTO ledger_of_blue_door SELECT generate_series(1, 300000)`); err != nil {
		t.Fatal(err)
	}
	if doctor := runCommand(t, command(t, url, "doctor")).out; !strings.Contains(doctor, "ledger_of_blue_door") {
		t.Fatalf("doctor does not name the biggest table:\n%s", doctor)
	}
	beside := filepath.Join(t.TempDir(), "bundle.tar.gz")
	succeed(t, url, "support-bundle", "-o", beside)
	if files, _ := unpacked(t, beside); strings.Contains(files["doctor.json"], "ledger_of") || !strings.Contains(files["doctor.json"], "no table has many") {
		t.Errorf("doctor.json is %s", files["doctor.json"])
	}
	// It replaces no file.
	if again := runCommand(t, command(t, url, "support-bundle", "-o", path)); again.code != cli.ExitFailed || !strings.Contains(again.errOut, "exists already") {
		t.Errorf("%+v", again)
	}
}

// keyOf is the key that key create --json has made.
func keyOf(t *testing.T, made string) string {
	t.Helper()
	var k struct{ Key string }
	if err := json.Unmarshal([]byte(made), &k); err != nil {
		t.Fatal(err)
	}
	return k.Key
}

// A part that cannot be had leaves its reason, and the others are there: where a table is
// locked, nobody serves, there is no database, or it has no tables. Made-up names are the
// same in every bundle.
func TestSupportBundleOfWhatIsBroken(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "append", fixture)
	conn := testkit.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `INSERT INTO service_key VALUES ('*', 'cursor', sha256('x'))`); err != nil {
		t.Fatal(err)
	}
	tx := testkit.Must(conn.Begin(t.Context()))(t)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE anomaly IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	bundle := func(url string) map[string]string {
		path := filepath.Join(t.TempDir(), "b.tar.gz")
		c := command(t, url, "support-bundle", "-o", path, "--json")
		c.Env = append(c.Env, "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:1")
		if r := runCommand(t, c); r.code != cli.ExitDone {
			t.Fatalf("%+v", r)
		}
		files, _ := unpacked(t, path)
		return files
	}
	files := bundle(url)
	_, faults := manifestOf(t, files)
	want := map[string]string{
		"anomalies.json": "PostgreSQL refused it with 55P03", "workspaces.json": "PostgreSQL refused it with 55P03",
		"metrics.txt": "nobody answers at LEDGERFEED_ADMIN_LISTEN", "readyz.json": "nobody answers at LEDGERFEED_ADMIN_LISTEN",
	}
	if fmt.Sprint(faults) != fmt.Sprint(want) || !strings.Contains(files["locks.json"], `"relation": "anomaly"`) {
		t.Errorf("with a locked table, %v\n%s", faults, files["locks.json"])
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`"workspace": "(workspace-[0-9a-f]{10})"`)
	first, second := name.FindStringSubmatch(bundle(url)["workspaces.json"]), name.FindStringSubmatch(bundle(url)["workspaces.json"])
	if len(first) != 2 || len(second) != 2 || first[1] != second[1] {
		t.Errorf("a workspace is %v, and then %v", first, second)
	}
	m, _ := manifestOf(t, bundle(testkit.EmptyDatabase(t)))
	if m.Database != "PostgreSQL refused it with 42P01" {
		t.Errorf("of a database without tables: %s", m.Database)
	}
	empty := filepath.Join(t.TempDir(), "data")
	c := command(t, "", "support-bundle", "--data-dir", empty, "-o", filepath.Join(t.TempDir(), "none.tar.gz"))
	if r := runCommand(t, c); r.code != cli.ExitDone || !strings.Contains(r.out, "settings.json") || !strings.Contains(r.out, "the database cannot be read") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("a database was made")
	}
}
