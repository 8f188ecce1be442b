package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestDeadLetters runs the commands of docs/operations/ingest.md: status and doctor say that there
// are dead letters, and the commands show, retry and drop them.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	url, shop := testkit.NewDatabase(t), testkit.EmptyDatabase(t)
	producer := testkit.Must(pgx.Connect(t.Context(), shop))(t)
	defer producer.Close(t.Context())
	with := func(source, in, args string) result {
		t.Helper()
		c := command(t, url, strings.Fields(args)...)
		c.Env = append(c.Env, "LEDGERFEED_INGEST_URL="+source, "LEDGERFEED_CREATE_WORKSPACES=false")
		c.Stdin = strings.NewReader(in)
		return runCommand(t, c)
	}
	on := func(args string) result { t.Helper(); return with(shop, "", args) }
	if r := on("ingest dead list"); r.code != cli.ExitDone || !strings.Contains(r.out, "has no dead letters.") {
		t.Errorf("before ingest has run: %+v", r)
	}
	c := command(t, url, "serve", "--roles", "ingest")
	c.Env = append(c.Env, "LEDGERFEED_INGEST_URL="+shop, "LEDGERFEED_CREATE_WORKSPACES=false")
	serving := startProcess(t, c)
	serving.await("messages can be ingested")
	if r := on("status"); strings.Contains(r.out, "dead") {
		t.Errorf("%+v", r)
	}
	for i, payload := range []string{
		`{"workspace_id":"acme","id":"e1","type":"client.recorded","data":{"client_id":"c","name":"Ada Lovelace"}}`, `{"workspace_id":"acme","id":"Ada Lovelace"}`, `"\u001b[31mred"`,
	} {
		execute1(t, producer, `INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES ($1, $2, '{}', pg_current_xact_id())`, fmt.Sprintf("m%d\x1b[31m", i), payload)
	}
	testkit.Eventually(t, func() error {
		if r := on("status"); !strings.Contains(r.out, "\n3 messages of "+nameOf(t, shop)+" are dead letters: ledgerfeed ingest dead list says why.\n") {
			return fmt.Errorf("%+v; logged:\n%s", r, serving.log)
		}
		return nil
	})
	if r := on("doctor"); r.code != cli.ExitFailed || !regexp.MustCompile(`ERROR +dead letters +3 messages of \S+ are dead letters; the newest, of \S+: .*want an entry.*\n.*→ ledgerfeed ingest dead list shows them`).MatchString(r.out) {
		t.Errorf("%+v", r)
	}
	list := on("ingest dead list")
	lines := regexp.MustCompile(`(?m)^(\d+-\d+) +\S+ +(\S+) +(\S+) +(\S+) +(.+)$`).FindAllStringSubmatch(list.out, -1)
	if len(lines) != 3 || lines[0][2] != "acme" || lines[0][3] != "e1" || lines[0][4] != "m0�[31m" || lines[1][3] != "-" || strings.Contains(list.out, "Ada") || strings.Contains(list.out, "\x1b") {
		t.Fatalf("%+v", list)
	}
	first, second := lines[0][1], lines[1][1]
	for args, want := range map[string]string{
		"ingest dead list --limit 1":                  "There are more: --after " + first,
		"ingest dead list --limit 1 --after " + first: second,
		"ingest dead list --json --limit 2":           `"id":"` + second + `"`,
		"ingest dead show " + first:                   `"name":"Ada Lovelace"`,
		"ingest dead show --json " + first:            `\"name\":\"Ada Lovelace\"`,
		"ingest dead show " + lines[2][1]:             `\u001b[31mred`,
		"status --json":                               `"dead_letters":{"source":"` + nameOf(t, shop) + `","count":3,`,
	} {
		if r := on(args); r.code != cli.ExitDone || !strings.Contains(r.out, want) {
			t.Errorf("%s: %+v, want %s", args, r, want)
		}
	}
	succeed(t, url, "workspace", "create", "--id", "acme")
	if r := on("ingest dead retry " + second + " " + first); r.code != cli.ExitFailed || !strings.Contains(r.out, "appended 1, skipped 0, kept 1\n") || !strings.Contains(r.out, second+" ") || strings.Contains(r.out, first+" ") {
		t.Errorf("%+v", r)
	}
	if out := succeed(t, url, "export"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"id":"e1"`) {
		t.Error(out)
	}
	if r := with(shop, "no\n", "ingest dead drop "+second); r.code != cli.ExitFailed || !strings.Contains(r.errOut, second) || !strings.Contains(r.errOut, "nothing was changed") {
		t.Errorf("%+v", r)
	}
	if r := with(shop, "yes\n", "ingest dead drop "+second); r.code != cli.ExitDone || r.out != "1 dead letter is deleted.\n" {
		t.Errorf("%+v", r)
	}
	if r := on("ingest dead drop --all --yes --json"); r.code != cli.ExitDone || r.out != "{\"dropped\":1}\n" {
		t.Errorf("%+v", r)
	}
	if r := on("ingest dead retry --all"); r.code != cli.ExitDone || r.out != "appended 0, skipped 0, kept 0\n" {
		t.Errorf("%+v", r)
	}
	if r := on("doctor"); !regexp.MustCompile(`OK +dead letters +\S+ has none`).MatchString(r.out) {
		t.Errorf("%+v", r)
	}
	for _, wrong := range []string{"ingest dead retry", "ingest dead drop --all 1-2", "ingest dead show x", "ingest dead list --after x", "ingest dead list --limit 0"} {
		if r := on(wrong); r.code != cli.ExitUsage {
			t.Errorf("%s: %+v", wrong, r)
		}
	}
	if r := on("ingest dead show " + second); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "has no dead letter "+second) {
		t.Errorf("%+v", r)
	}
	if r := with("", "", "ingest dead list"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "LEDGERFEED_INGEST_URL is not set") {
		t.Errorf("%+v", r)
	}
	// A source that is away hides nothing else.
	for _, source := range []string{"postgres://u:hunter2@127.0.0.1:1/shop", "nats://u:hunter2@127.0.0.1:1/"} {
		if r := with(source, "", "status"); r.code != cli.ExitDone || !strings.Contains(r.out, "read_models") || !regexp.MustCompile(`\nThe dead letters of \S+ cannot be counted: .*`).MatchString(r.out) || strings.Contains(r.out, "hunter2") {
			t.Errorf("%+v", r)
		}
		if r := with(source, "", "doctor"); r.code != cli.ExitFailed || !strings.Contains(r.out, "cannot read the dead letters of") || !strings.Contains(r.out, "identity provider") || strings.Contains(r.out, "hunter2") {
			t.Errorf("%+v", r)
		}
		if r := with(source, "", "ingest dead list"); r.code != cli.ExitFailed || strings.Contains(r.errOut, "hunter2") {
			t.Errorf("%+v", r)
		}
	}
	if code := serving.stop(); code != cli.ExitDone {
		t.Error(errors.New(serving.log.String()))
	}
}

// nameOf is an outbox as the commands name it.
func nameOf(t *testing.T, url string) string {
	t.Helper()
	cfg := testkit.Must(pgx.ParseConfig(url))(t)
	return cfg.Host + "/" + cfg.Database + "/watermill_ledgerfeed"
}
