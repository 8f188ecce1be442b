package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestMistakes: what people do wrong on their first day is answered with what is wrong,
// once, where, and what to do. A wrong command line or setting has the exit status 2,
// what the world lacks 1.
func TestMistakes(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	succeed(t, database, "workspace", "create", "--id", "acme", "--name", "Acme")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = taken.Close() }) // the cases run after this function
	other := testkit.Must(url.Parse(database))(t)
	other.Path = "/absent"
	const usage, failed = cli.ExitUsage, cli.ExitFailed
	for name, c := range map[string]struct {
		set  string // NAME=value
		args string
		code int
		want string
	}{
		"a command mistyped":                {"", "apend", usage, `there is no command "apend"; did you mean append?`},
		"a command for readers":             {"", "follow --url https://api.example.com", usage, `there is no command "follow"; did you mean ledgerfeed-reader follow?`},
		"a command of a group":              {"", "webhook crate", usage, `there is no command "crate"; did you mean create?`},
		"a command of a group, with a flag": {"", "key creat --workspace x", usage, `there is no command "creat"; did you mean create?`},
		"a command, with a flag":            {"", "apend --strem", usage, `there is no command "apend"; did you mean append?`},
		"the help of a command":             {"", "apend --help", usage, `ledgerfeed: there is no command "apend"; did you mean append?`},
		"the help of a deeper command":      {"", "key creat --help", usage, `ledgerfeed key: there is no command "creat"; did you mean create?`},
		"help for a command":                {"", "help apend", usage, `ledgerfeed: there is no command "apend"; did you mean append?`},
		"help for a deeper command":         {"", "help key creat", usage, `there is no command "creat"; did you mean create?`},
		"a deeper command, with a flag":     {"", "signing-key shw --name x", usage, `there is no command "shw"; did you mean show?`},
		"a flag without a command":          {"", "key --workspace x", usage, "--workspace is a flag of its commands: name one of them first: create, list"},
		"a flag that no command of it has":  {"", "key --worksapce x", usage, "there is no flag --worksapce"},
		"entries in UTF-16":                 {"", "append " + file("utf16.ndjson", "\xff\xfe{\x00}\x00"), failed, "it is UTF-16: want UTF-8, as from iconv -f UTF-16 -t UTF-8"},
		"entries in UTF-16 as they come":    {"", "append --stream " + file("stream.ndjson", "{\x00}\x00"), failed, "it is UTF-16: want UTF-8"},
		"a byte order mark between two files": {
			"", "append " + file("joined.ndjson", "\ufeff"+recorded("acme", "a")+"\ufeff"+recorded("acme", "b")), failed, "joined.ndjson, line 2: the line begins with a byte order mark",
		},
		"entries in an array": {
			"", "append " + file("array.json", "\n [\n"+recorded("acme", "a")), failed, "array.json is a JSON array: want one entry in each line, as with jq -c '.[]' FILE | ledgerfeed append",
		},
		"entries over several lines": {
			"", "append --stream " + file("pretty.json", "{\n\"id\": 1}\n"), failed, "pretty.json has JSON over several lines: want one entry in each line, as with jq -c . FILE",
		},
		"entries that are compressed": {
			"", "append --check " + file("entries.gz", "\x1f\x8b\x08\x00\n\n"), failed, "entries.gz is compressed: unpack it first, as with gunzip -c FILE",
		},
		"verifier keys in UTF-16":    {"", "signing-key check --keys " + file("keys.txt", "\xfe\xff\x00a") + " " + file("note", "x"), failed, "keys.txt: it is UTF-16: want UTF-8"},
		"a group alone":              {"", "key", usage, "name one of its commands: create, list"},
		"a flag mistyped":            {"", "append --strem", usage, "there is no flag --strem; did you mean --stream?"},
		"a role mistyped":            {"", "serve --roles projct", usage, `there is no role "projct"; want some of api, project, deliver, console, relay, ingest, ingest-api; did you mean project?`},
		"a port alone":               {"LEDGERFEED_LISTEN=8080", "serve", usage, `LEDGERFEED_LISTEN is "8080": want host:port, such as 127.0.0.1:8080`},
		"a time without a unit":      {"", "status --wait --timeout 5", usage, `--timeout is "5": want a time such as 90s, 15m, 12h or 30d`},
		"a setting's time":           {"LEDGERFEED_RETENTION=a month", "serve", usage, `LEDGERFEED_RETENTION is "a month": want a time above 0, such as 30d or 720h`},
		"half of a certificate":      {"LEDGERFEED_TLS_CERT=cert.pem", "serve", usage, `LEDGERFEED_TLS_KEY is ""`},
		"a setting's name in a file": {"", "status --config " + file("c.yaml", "listn: :80\n"), usage, "c.yaml, line 1: there is no setting listn; did you mean listen?"},
		"a setting's value in a file": {
			"", "status --config " + file("v.yaml", "\nretention: soon\n"), usage, `LEDGERFEED_RETENTION is "soon" (v.yaml, line 2): want a time`,
		},
		"no address of a database": {"DATABASE_URL=nonsense", "status", failed, "DATABASE_URL is no address of a database: want postgres://"},
		"another kind of database": {"DATABASE_URL=mysql://me:hunter2@db/x", "serve", failed, "DATABASE_URL is no address of a database: want postgres://"},
		"a data directory that cannot be": {
			"DATABASE_URL=", "append --data-dir /proc/ledgerfeed " + file("none.ndjson", ""), failed, `LEDGERFEED_DATA_DIR or --data-dir, which is "/proc/ledgerfeed": `,
		},
		"a certificate that is absent": {
			"", "serve --config " + file("tls.yaml", "tls_cert: /absent.pem\ntls_key: /absent.key\n"), failed, `LEDGERFEED_TLS_CERT is "/absent.pem" and LEDGERFEED_TLS_KEY is "/absent.key": cannot read`,
		},
		"authorities that are absent": {"LEDGERFEED_WEBHOOK_CA_FILE=/absent.pem", "serve --roles deliver", failed, "LEDGERFEED_WEBHOOK_CA_FILE: open /absent.pem: no such file"},
		"a setting's name":            {"LEDGERFEED_RETENTON=30d", "export --workspace acne", failed, "there is no setting LEDGERFEED_RETENTON; did you mean LEDGERFEED_RETENTION?"},
		"a wait without --wait":       {"", "append --timeout 5m", usage, "--timeout is for --wait"},
		"nobody at the address":       {"DATABASE_URL=postgres://me:hunter2@127.0.0.1:1/x", "status", failed, "cannot connect to the database x at 127.0.0.1:1 as me, which DATABASE_URL names: connection refused"},
		"an @ in the password":        {"DATABASE_URL=postgres://me:a@hunter2@127.0.0.1:1/x", "serve", failed, "DATABASE_URL has an @ too many before its host: percent-encode"},
		"nobody at the outbox":        {"LEDGERFEED_INGEST_URL=postgres://me:hunter2@127.0.0.1:1/shop", "ingest dead list", failed, "cannot connect to the database shop at 127.0.0.1:1 as me, which LEDGERFEED_INGEST_URL names: connection refused; check that PostgreSQL runs there"},
		"nobody at one in MySQL":      {"LEDGERFEED_INGEST_URL=mysql://me:hunter2@127.0.0.1:1/shop", "ingest dead list", failed, "cannot connect to the database shop at 127.0.0.1:1 as me, which LEDGERFEED_INGEST_URL names: connection refused; check that MySQL or MariaDB runs there"},
		"nobody at the broker":        {"LEDGERFEED_INGEST_URL=nats://me:hunter2@127.0.0.1:1", "ingest dead list", failed, "there is no connection to the message broker at 127.0.0.1:1, which LEDGERFEED_INGEST_URL names: "},
		"another database":            {"DATABASE_URL=" + other.String(), "serve", failed, `which DATABASE_URL names: database "absent" does not exist`},
		"no database yet":             {"DATABASE_URL=", "status", failed, "there is no database in "},
		"a port that is taken":        {"LEDGERFEED_LISTEN=" + taken.Addr().String(), "serve --roles api", failed, "LEDGERFEED_LISTEN sets the address"},
		"an absent file":              {"", "append /absent.ndjson", failed, "/absent.ndjson: no such file"},
		"a field left out": {
			"", "append " + file("f.ndjson", `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"x"}}`), failed, "f.ndjson, line 1: data.name is missing: want a text",
		},
		"a type mistyped": {
			"", "append " + file("t.ndjson", `{"workspace_id":"acme","type":"client.record","data":{"client_id":"x","name":"y"}}`), failed, "t.ndjson, line 1: type is not known",
		},
		"an id with a space":         {"", "workspace create --id a.b --name x", usage, "want 1 to 64 letters, digits, _ and -"},
		"a workspace twice":          {"", "workspace create --id acme --name x", failed, `there is a workspace "acme" already; ledgerfeed workspace set --id acme changes`},
		"a workspace mistyped":       {"", "export --workspace acne", failed, `there is no workspace "acne"`},
		"a key without its flags":    {"", "key create --name x", usage, "want --workspace, --name and --scopes"},
		"a scope mistyped":           {"", "key create --workspace acme --name x --scopes invoice:read", usage, `unknown permission "invoice:read"; allowed are invoices:read`},
		"a webhook without https":    {"", "webhook create --workspace acme --url http://example.com", usage, "the address must start with https://. To try it on this machine, run ledgerfeed webhook listen --workspace acme --forward-to http://example.com\n"},
		"a webhook on this machine":  {"", "webhook create --workspace acme --url https://localhost", usage, "localhost is a name of local networks only. To try it on this machine, run ledgerfeed webhook listen --workspace acme --forward-to https://localhost; to allow its network, set LEDGERFEED_WEBHOOK_ALLOW for serve and for this command\n"},
		"an event type mistyped":     {"", "webhook create --workspace acme --url https://example.com --events invoice.payd", usage, "; did you mean invoice.paid?"},
		"a resource of explain":      {"", "explain invoice x --workspace acme", usage, "; did you mean invoices?"},
		"an argument too many":       {"", "status now", usage, `there is an argument too many, "now"`},
		"an argument left out":       {"", "key revoke", usage, "want KEY-ID"},
		"a flag without its value":   {"", "append --ids", usage, "flag needs an argument: --ids"},
		"an export of a wrong place": {"", "export --from start", usage, `--from is "start": want a whole number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, database, strings.Fields(c.args)...)
			if c.set != "" {
				cmd.Env = append(cmd.Env, c.set)
			}
			r := runCommand(t, cmd)
			if r.code != c.code || strings.Count(r.errOut, c.want) != 1 || r.out != "" || strings.Contains(r.errOut, "hunter2") || strings.Contains(r.errOut, "goroutine") {
				t.Errorf("exit %d, want %d and %q once in:\n%s%s", r.code, c.code, c.want, r.errOut, r.out)
			}
		})
	}
}
