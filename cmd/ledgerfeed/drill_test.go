//go:build outside && unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
)

// drill is an installation that is backed up under load, lost, and restored.
type drill struct {
	t         *testing.T
	page      *backupPage
	original  *pgserver.Server
	producers []*drillProducer
	receiver  *testkit.Receiver
	caFile    string

	mu    sync.Mutex
	taken map[string]bool // ids of events that the receiver accepted; guarded by mu
	wrong []string        // messages that it could not verify; guarded by mu

	secret           string  // of the webhook
	caller           *caller // with a key of before the backup
	early, late      *follower
	revokedSince     string // a key that was revoked after the moment
	madeSince        string // and one that was made after it
	toMoment, toDump drillMoment
}

// TestRestoreDrill backs up a service under load as docs/operations/backup.md says, with
// its own commands, goes on, kills everything, restores to a moment and from a dump,
// serves again, and compares with the original and with what the page promises.
func TestRestoreDrill(t *testing.T) {
	h := newDrillHost(t)
	d := &drill{
		t: t, original: drillServer(h, "original"), caFile: testkit.CAFile(t), taken: map[string]bool{},
		page: &backupPage{t, read(t, "../../docs/operations/backup.md"), strings.NewReplacer(
			"/backup/", filepath.Join(h.Dir, "backup")+"/", "/var/lib/postgresql/15/", h.Dir+"/")},
	}
	for n := range 3 {
		d.producers = append(d.producers, newDrillProducer(t, n))
	}
	d.receiver = testkit.NewReceiver(t, d.receive)
	d.install()
	d.underLoad()

	restored := d.restoreToTheMoment(h)
	d.compareLogs(restored, d.toMoment)
	d.serveAgain(restored)
	d.restoreTheDump(h)
}

// receive answers every tenth message with an error, so that deliveries are pending in
// the backups.
func (d *drill) receive(n int, w http.ResponseWriter, r *http.Request) {
	body := d.receiver.All()[n-1].Body
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := attempt.Verify(time.Now(), r.Header.Get("SERVICE-Signature"), []byte(body), d.secret); err != nil {
		d.wrong = append(d.wrong, err.Error())
	}
	if n%10 == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	d.taken[r.Header.Get("SERVICE-Event-Id")] = true
}

// command is a command on a database as an account of docs/operations/roles.md.
func (d *drill) command(s *pgserver.Server, account string, args ...string) *exec.Cmd {
	c := command(d.t, s.URL(account, "ledgerfeed"), args...)
	c.Env = append(c.Env, "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE="+d.caFile, "LEDGERFEED_RETRY_SCHEDULE=1s,1s,2s,2s,5s,5s,5s")
	return c
}

func (d *drill) succeed(s *pgserver.Server, account string, args ...string) string {
	d.t.Helper()
	r := runCommand(d.t, d.command(s, account, args...))
	if r.code != cli.ExitDone {
		d.t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

// install sets the service up as docs/operations/roles.md says, with archiving.
func (d *drill) install() {
	d.t.Helper()
	initialize(d.original, d.page.block("## Continuous archiving", 0))
	d.original.Execute("postgres", "CREATE DATABASE ledgerfeed")
	var sql struct{ Roles string }
	if err := json.Unmarshal([]byte(d.succeed(d.original, "postgres", "migrate", "--grants", "print", "--json")), &sql); err != nil {
		d.t.Fatal(err)
	}
	_, accounts, _ := strings.Cut(read(d.t, "../../docs/operations/roles.md"), "```sql\n")
	accounts, _, _ = strings.Cut(accounts, "```")
	d.original.Execute("ledgerfeed", sql.Roles+accounts)
	d.succeed(d.original, "billing_migrate", "migrate")
	d.succeed(d.original, "billing_migrate", "migrate", "--grants", "apply")
	for _, p := range d.producers {
		d.succeed(d.original, "billing_serve", "workspace", "create", "--id", p.workspaceID, "--name", p.workspaceID)
	}
	var made struct{ Secret string }
	out := d.succeed(d.original, "billing_serve", "webhook", "create", "--json", "--workspace", "agency-0", "--url", d.receiver.URL, "--events", "all")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		d.t.Fatal(err)
	}
	d.secret = made.Secret
}

// serve starts all roles.
func (d *drill) serve(s *pgserver.Server) *process {
	d.t.Helper()
	c := d.command(s, "billing_serve", "serve", "--no-migrate")
	c.Env = append(c.Env, "LEDGERFEED_RETENTION=30d")
	return startProcess(d.t, c)
}

// underLoad makes both backups while producers append, notes moments, goes on, and kills
// everything.
func (d *drill) underLoad() {
	t := d.t
	t.Helper()
	serving := d.serve(d.original)
	d.caller = newCaller(t, d.original.URL("billing_serve", "ledgerfeed"), apiOf(serving), "agency-0")
	d.revokedSince = d.newKey("revoked")
	log, closeLog, err := openLog(t.Context(), d.original.URL("billing_append", "ledgerfeed"))
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	var producing errgroup.Group
	stop := make(chan struct{})
	for _, p := range d.producers {
		producing.Go(func() error { return p.run(context.WithoutCancel(t.Context()), log, stop) })
	}
	appendedMore(t, d.producers, 100)
	following, killed := &follower{caller: d.caller, path: "/v1/events", limit: 20, rows: map[string]string{}}, make(chan struct{})
	var reading errgroup.Group
	reading.Go(func() error { return following.pollUntil(killed) })

	shell(d.original, d.page.block("## Continuous archiving", 1)) // the base backup
	appendedMore(t, d.producers, 100)
	d.early = d.follow()
	appendedMore(t, d.producers, 50)
	d.toMoment = note(d.producers, func() string { return pgserver.Query[string](d.original, "postgres", "SELECT clock_timestamp()::text") })
	appendedMore(t, d.producers, 200)
	testkit.Eventually(t, func() error { // what is lost has been seen
		if d.late = d.follow(); len(d.late.inOrder) == 0 || d.seenPosition(d.late) <= d.toMoment.utter["agency-0"] {
			return fmt.Errorf("a follower has seen %d events", len(d.late.inOrder))
		}
		return nil
	})
	d.madeSince = d.newKey("made")
	d.succeed(d.original, "billing_serve", "key", "revoke", keyID(t, d.revokedSince))

	d.toDump = note(d.producers, func() string { return shell(d.original, d.page.block("## A dump", 0)) })
	appendedMore(t, d.producers, 100)
	d.archived()
	// Everything ends at once, in the middle of its work.
	serving.kill()
	d.original.Kill()
	close(stop)
	_ = producing.Wait() // the database is gone
	close(killed)
	_ = reading.Wait()
	for _, p := range d.producers {
		begun, acked := p.counts()
		t.Logf("%s: %d entries acknowledged, %d begun; %d to %d at the moment", p.workspaceID, acked, begun, d.toMoment.least[p.workspaceID], d.toMoment.utter[p.workspaceID])
	}
}

// newKey makes a key and returns what the command says about it.
func (d *drill) newKey(name string) (made string) {
	return d.succeed(d.original, "billing_serve", "key", "create", "--json", "--workspace", "agency-0", "--name", name, "--scopes", "events:read")
}

func keyID(t *testing.T, made string) string { t.Helper(); return keyFields(t, made)[0] }

// keyFields are the id and the key that key create has made.
func keyFields(t *testing.T, made string) [2]string {
	t.Helper()
	var k struct{ ID, Key string }
	if err := json.Unmarshal([]byte(made), &k); err != nil {
		t.Fatalf("%s: %v", made, err)
	}
	return [2]string{k.ID, k.Key}
}

// follow is a follower that has come to the end of the feed.
func (d *drill) follow() *follower {
	d.t.Helper()
	f := &follower{caller: d.caller, path: "/v1/events", limit: 100, rows: map[string]string{}}
	for more := true; more; {
		var err error
		if more, err = f.poll(); err != nil {
			d.t.Fatal(err)
		}
	}
	return f
}

// seenPosition is the position of the last event that a follower has seen.
func (d *drill) seenPosition(f *follower) int {
	d.t.Helper()
	return pgserver.Query[int](d.original, "ledgerfeed", "SELECT position::integer FROM event_log WHERE workspace_id = 'agency-0' AND id = $1", eventID(d.t, f.inOrder[len(f.inOrder)-1]))
}

func eventID(t *testing.T, text string) string {
	t.Helper()
	var e struct{ ID string }
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// archived has the server finish its segment of the write-ahead log, and waits until that
// is in the archive.
func (d *drill) archived() {
	d.t.Helper()
	segment := pgserver.Query[string](d.original, "postgres", "SELECT pg_walfile_name(pg_switch_wal())")
	testkit.Eventually(d.t, func() error {
		_, err := os.Stat(filepath.Join(d.original.Dir, "backup", "wal", segment))
		return err
	})
}

// chainOf is the log of a workspace with its chain, as export writes it.
func (d *drill) chainOf(s *pgserver.Server, workspaceID string) []byte {
	d.t.Helper()
	return []byte(d.succeed(s, "audit", "export", "--chain", "--workspace", workspaceID))
}

// doctor returns what doctor --after-restore finds.
func (d *drill) doctor(s *pgserver.Server, key string) (code int, text string) {
	d.t.Helper()
	c := d.command(s, "billing_serve", "doctor", "--after-restore")
	c.Env = append(c.Env, "LEDGERFEED_SECRET_KEY="+key)
	r := runCommand(d.t, c)
	return r.code, r.out
}

// goodKey is that of command.
const goodKey = "a key for all processes of a test"

// says wants lines of doctor that hold texts.
func (d *drill) says(text string, wanted ...string) {
	d.t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			d.t.Errorf("doctor does not say %q:\n%s", want, text)
		}
	}
}

// restoreToTheMoment restores as the page says, and returns the server once it is the
// right moment and it was promoted.
func (d *drill) restoreToTheMoment(h *pgserver.Host) *pgserver.Server {
	t := d.t
	t.Helper()
	s := drillServer(h, "restored")
	script := d.page.block("### Restored to a moment", 0)
	const written = "2026-11-23 09:15:00+00"
	if !strings.Contains(script, written) {
		t.Fatalf("the page has another time than %s:\n%s", written, script)
	}
	shell(s, strings.ReplaceAll(script, written, d.toMoment.at))
	s.Begin()
	testkit.Eventually(t, func() error {
		if !pgserver.Query[bool](s, "postgres", "SELECT pg_is_wal_replay_paused()") {
			return fmt.Errorf("the server has not come to the moment:\n%s", s.Log())
		}
		return nil
	})
	if code, text := d.doctor(s, goodKey); code != cli.ExitFailed {
		t.Errorf("before the server is promoted, doctor ends with %d:\n%s", code, text)
	} else {
		d.says(text, "ERROR    recovery", "pg_promote", "the newest of all, other than entries that forget people, was appended on ")
	}
	shell(s, d.page.block("### Restored to a moment", 1))
	return s
}

// compareLogs wants a restored log to be the beginning of the original's, byte by byte,
// with what was acknowledged before the moment and nothing that was begun after it.
func (d *drill) compareLogs(restored *pgserver.Server, m drillMoment) {
	t := d.t
	t.Helper()
	d.original.Begin() // it recovers from the kill, and has everything that was acknowledged
	defer d.original.Stop()
	for _, p := range d.producers {
		whole, part := d.chainOf(d.original, p.workspaceID), d.chainOf(restored, p.workspaceID)
		_, acked := p.counts()
		if n := bytes.Count(whole, []byte{'\n'}); n < acked {
			t.Errorf("%s: the original has %d entries after the kill, and acknowledged %d", p.workspaceID, n, acked)
		}
		n := bytes.Count(part, []byte{'\n'})
		if least, utter := m.least[p.workspaceID], m.utter[p.workspaceID]; n < least || n > utter {
			t.Errorf("%s: the restored log has %d entries, want %d to %d", p.workspaceID, n, least, utter)
		}
		if !bytes.HasPrefix(whole, part) || len(part) == len(whole) {
			t.Errorf("%s: the restored log is not the beginning of the original's", p.workspaceID)
		}
	}
}

// serveAgain goes on with a restored server as "After a restore" says, and checks what
// producers, followers and receivers get.
func (d *drill) serveAgain(s *pgserver.Server) {
	t := d.t
	t.Helper()
	_, text := d.doctor(s, "the key of another installation")
	d.says(text, "ERROR    keys")
	code, text := d.doctor(s, goodKey)
	if code != cli.ExitDone {
		t.Errorf("doctor ends with %d", code)
	}
	d.says(text, "in 3 workspaces; the newest 100 of each have the right chain", "1 webhook is on", "what was revoked", "deliveries will be tried again", "OK       keys")
	d.runAsWritten(s, "## After a restore")
	d.compareWithAFold(s)

	file := filepath.Join(t.TempDir(), "kept.ndjson")
	var kept []byte
	for _, p := range d.producers {
		kept = append(kept, p.offered()...)
	}
	before := pgserver.Query[int](s, "ledgerfeed", "SELECT count(*)::integer FROM event_log")
	serving := d.serve(s)
	d.caller.url = apiOf(serving)
	d.cursorsAre(http.StatusBadRequest)
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	var done struct{ Appended, Skipped int }
	if err := json.Unmarshal([]byte(d.succeed(s, "billing_append", "append", "--json", file)), &done); err != nil {
		t.Fatal(err)
	}
	if all := bytes.Count(kept, []byte{'\n'}); done.Skipped != before || done.Appended != all-before || done.Appended == 0 {
		t.Errorf("offered again, %d entries give %+v, with %d in the log", all, done, before)
	}
	d.succeed(s, "billing_serve", "status", "--wait", "--timeout", "1m")
	d.cursorsAre(http.StatusBadRequest)
	d.followersGoOn()
	d.receiverHasAll(s)
	d.succeed(s, "audit", "verify")
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
	s.Stop()
}

// runAsWritten runs the commands of this program in a block of the page.
func (d *drill) runAsWritten(s *pgserver.Server, heading string) {
	d.t.Helper()
	bin := d.t.TempDir()
	if err := os.Symlink(testkit.Must(os.Executable())(d.t), filepath.Join(bin, "ledgerfeed")); err != nil {
		d.t.Fatal(err)
	}
	c := d.command(s, "billing_serve")
	c.Path, c.Args = testkit.Must(exec.LookPath("bash"))(d.t), []string{"bash", "-euc", d.page.block(heading, 0)}
	c.Env = append(c.Env, "PATH="+bin+":/usr/bin:/bin")
	if r := runCommand(d.t, c); r.code != 0 {
		d.t.Fatalf("exit %d\n%s%s", r.code, r.out, r.errOut)
	}
}

// compareWithAFold compares every list of a restored service with that of a new database
// into which its log was moved, so that all rows are made from nothing.
func (d *drill) compareWithAFold(s *pgserver.Server) {
	t := d.t
	t.Helper()
	fresh := testkit.NewDatabase(t)
	restore := command(t, fresh, "append", "--restore")
	restore.Stdin = strings.NewReader(d.succeed(s, "audit", "export"))
	if r := runCommand(t, restore); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	folding, serving := startProcess(t, command(t, fresh, "serve")), startProcess(t, d.command(s, "billing_serve", "serve", "--no-migrate", "--roles", "api"))
	succeed(t, fresh, "status", "--wait", "--timeout", "1m")
	// The restored read models may be behind their log by what was under way.
	projecting := startProcess(t, d.command(s, "billing_serve", "serve", "--no-migrate", "--roles", "project"))
	d.succeed(s, "billing_serve", "status", "--wait", "--timeout", "1m")
	scopes := endpointScopes + ",pay:read,margin:read"
	for _, p := range d.producers {
		want := newReader(t, fresh, apiOf(folding), p.workspaceID, scopes)
		got := newReader(t, s.URL("billing_serve", "ledgerfeed"), apiOf(serving), p.workspaceID, scopes)
		compared := 0
		for _, name := range []string{"invoices", "time-entries", "charges", "payments", "clients", "contractors", "events"} {
			rows := got.list("/v1/"+name, 100)
			compared += len(rows)
			same(t, p.workspaceID+" "+name, array(rows), array(want.list("/v1/"+name, 100)))
		}
		if compared < 500 {
			t.Errorf("%s has %d rows: the drill compares little", p.workspaceID, compared)
		}
	}
	for _, p := range []*process{folding, serving, projecting} {
		p.stop()
	}
}

// cursorsAre wants a cursor of after the moment to be answered with a status, in words, a
// key of after it to be unknown, and one that was revoked after it to work again.
func (d *drill) cursorsAre(status int) {
	t := d.t
	t.Helper()
	a := testkit.Must(d.caller.get("/v1/events?limit=100&cursor="+d.late.cursor, ""))(t)
	if a.status != status || !bytes.Contains(a.body, []byte(`"cursor"`)) || !bytes.Contains(a.body, []byte("read the")) {
		t.Errorf("a cursor of after the moment: %d %s", a.status, a.body)
	}
	for made, want := range map[string]int{d.madeSince: http.StatusUnauthorized, d.revokedSince: http.StatusOK} {
		other := caller{url: d.caller.url, key: keyFields(t, made)[1]}
		if a := testkit.Must(other.get("/v1/events?limit=1", ""))(t); a.status != want {
			t.Errorf("%s is answered %d, want %d", made, a.status, want)
		}
	}
}

// followersGoOn: one of before the moment gets all that follows, once and in order, so
// that it has what a follower that begins now has.
func (d *drill) followersGoOn() {
	d.t.Helper()
	for more := true; more; {
		var err error
		if more, err = d.early.poll(); err != nil {
			d.t.Fatal(err)
		}
	}
	if whole := d.follow(); !slices.Equal(d.early.inOrder, whole.inOrder) {
		d.t.Errorf("a follower of before the moment has %d events, want %d", len(d.early.inOrder), len(whole.inOrder))
	}
}

// receiverHasAll waits until the receiver has accepted every event of the log, and wants
// each to be signed with the secret of before the backup.
func (d *drill) receiverHasAll(s *pgserver.Server) {
	d.t.Helper()
	ids := pgserver.Query[[]string](s, "ledgerfeed", "SELECT array_agg(id ORDER BY position) FROM event_log WHERE workspace_id = 'agency-0' AND public_event IS NOT NULL")
	testkit.Eventually(d.t, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return d.taken[id] })
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d events have not arrived, such as %s", len(missing), len(ids), missing[0])
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.wrong) > 0 {
		d.t.Errorf("%d messages were not signed with the webhook's secret: %s", len(d.wrong), d.wrong[0])
	}
	for id := range d.taken {
		if !slices.Contains(ids, id) {
			d.t.Errorf("the receiver has %s, which producers offered again, and the log does not", id)
			return
		}
	}
}

// restoreTheDump restores the dump on another server, and compares its log.
func (d *drill) restoreTheDump(h *pgserver.Host) {
	d.t.Helper()
	s := drillServer(h, "from-a-dump")
	initialize(s, "")
	shell(s, d.page.block("## A dump", 1))
	d.compareLogs(s, d.toDump)
	if code, text := d.doctor(s, goodKey); code != cli.ExitDone {
		d.t.Errorf("doctor ends with %d:\n%s", code, text)
	}
	d.succeed(s, "audit", "verify")
	serving := d.serve(s)
	serving.await("for=api url=")
	// What is appended now reaches the receiver, signed with the old secret.
	add := d.command(s, "billing_append", "append")
	add.Stdin = strings.NewReader(`{"workspace_id":"agency-0","id":"after-the-dump","type":"invoice.reversed","data":{"invoice_id":"in_1"}}`)
	if r := runCommand(d.t, add); r.code != cli.ExitDone {
		d.t.Fatalf("%+v", r)
	}
	testkit.Eventually(d.t, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.taken["after-the-dump"] || len(d.wrong) > 0 {
			return fmt.Errorf("the new event has not arrived; %d wrong signatures", len(d.wrong))
		}
		return nil
	})
	if code := serving.stop(); code != cli.ExitDone {
		d.t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}
