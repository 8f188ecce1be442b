//go:build outside

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// with adds what another process says.
func (s scrape) with(other scrape) scrape {
	both := scrape{s.at, maps.Clone(s.values), s.types}
	for name, value := range other.values {
		both.values[strings.Replace(name, `instance="tried"`, `instance="other"`, 1)] = value
	}
	return both
}

// another starts a second process of the instance, with roles of its own.
func (x *tried) another(roles string) (serving *process, admin string) {
	x.Helper()
	c := command(x.T, x.url, "serve", "--roles", roles)
	c.Env = append(c.Env, x.settings...)
	serving = startProcess(x.T, c)
	admin = strings.TrimSpace(serving.await("for=admin url="))
	testkit.Eventually(x.T, func() error {
		if status, text := bodyOf(x.T, admin+"/readyz"); status != http.StatusOK {
			return errors.New(text)
		}
		return nil
	})
	return serving, admin
}

func tryRoleGone(x *tried) {
	x.hook()
	delivering, admin := x.another("deliver")
	x.serve("api,project")
	sound := x.until(`ledgerfeed_webhooks{state="on"`, above(0)).with(scrapeOf(x.T, admin))
	x.judge("sound", sound, sound, false)
	delivering.kill()
	broken := scrapeOf(x.T, x.admin)
	x.judge("broken", broken, broken, true)
	x.runs("ledgerfeed doctor", cli.ExitFailed, "no process with the role deliver is connected")
	x.hasOnItsPage("`ledgerfeed serve --roles deliver`")
	_, admin = x.another("deliver")
	mended := scrapeOf(x.T, x.admin).with(scrapeOf(x.T, admin))
	x.judge("mended", mended, mended, false)
}

func tryProcessDown(x *tried) {
	x.serve("api,project")
	other, admin := x.another("api,project")
	sound := scrapeOf(x.T, admin).with(scrapeOf(x.T, x.admin))
	x.judge("sound", sound, sound, false)
	other.kill()
	broken := scrapeOf(x.T, admin).with(scrapeOf(x.T, x.admin))
	x.judge("broken", broken, broken, true)
	_, admin = x.another("api,project")
	mended := scrapeOf(x.T, admin).with(scrapeOf(x.T, x.admin))
	x.judge("mended", mended, mended, false)
}

// lock locks a table, in a session of its own, until the returned function is called.
func (x *tried) lock(table string) (pid uint32, unlock func()) {
	x.Helper()
	conn := testkit.Must(pgx.Connect(x.Context(), x.url))(x.T)
	x.Cleanup(func() { _ = conn.Close(x.Context()) })
	testkit.Must(conn.Exec(x.Context(), `BEGIN; LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`))(x.T)
	return conn.PgConn().PID(), func() {
		x.Helper()
		testkit.Must(conn.Exec(x.Context(), `COMMIT`))(x.T)
	}
}

// heldUp waits until statements have waited for a lock for so long.
func (x *tried) heldUp(statements int, interval string) {
	x.Helper()
	testkit.Eventually(x.T, func() error {
		var n int
		err := x.conn.QueryRow(x.Context(), `
			SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			 WHERE d.datname = current_database() AND NOT l.granted AND clock_timestamp() - l.waitstart > $1::text::interval`, interval).Scan(&n)
		if err == nil && n < statements {
			err = fmt.Errorf("%d statements are held up, want %d", n, statements)
		}
		return err
	})
}

// crowd sends each caller's requests for pages at once, over connections of their own. The
// returned function waits for the answers, and returns how many were not 200.
func (x *tried) crowd(requests int, keys ...string) (others func() int) {
	var all sync.WaitGroup
	var failed atomic.Int64
	for _, key := range keys {
		for i := range requests {
			all.Go(func() {
				alone := caller{url: x.api, key: key, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
				if a, err := alone.get(fmt.Sprintf("/v1/invoices?limit=%d", i+1), ""); err != nil || a.status != http.StatusOK {
					failed.Add(1)
				}
			})
		}
	}
	return func() int { all.Wait(); return int(failed.Load()) }
}

// blocker is who blocks whom, as the page asks PostgreSQL.
const blocker = `SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0`

func (x *tried) namesTheBlocker(pid uint32) {
	x.Helper()
	x.hasOnItsPage("`" + blocker + "`")
	rows := testkit.Must(x.conn.Query(x.Context(), blocker))(x.T)
	defer rows.Close()
	found := false
	for rows.Next() {
		var waiting uint32
		var by []uint32
		var query string
		if err := rows.Scan(&waiting, &by, &query); err != nil {
			x.Fatal(err)
		}
		found = found || len(by) == 1 && by[0] == pid
	}
	if err := rows.Err(); err != nil || !found {
		x.Errorf("who blocks is not found: %v", err)
	}
}

func tryAPISlow(x *tried) {
	x.serve("api,project")
	x.runAlso("status", "--wait")
	key := newCaller(x.T, x.url, x.api, "acme").key
	x.crowd(1, key)() // what is cold is slow
	quick := func() (before, after scrape) {
		before = scrapeOf(x.T, x.admin)
		for range 100 { // one after the other
			if n := x.crowd(1, key)(); n > 0 {
				x.Error("a request failed")
			}
		}
		return before, scrapeOf(x.T, x.admin)
	}
	before, after := quick()
	x.judge("sound", before, after, false)
	before = after
	blocking, _ := x.lock("invoice")
	failed := x.crowd(30, key)
	x.heldUp(1, "200ms")
	x.namesTheBlocker(blocking)
	x.hasOnItsPage("`SELECT pg_terminate_backend(PID)`")
	x.exec(fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, blocking))
	if n := failed(); n > 0 {
		x.Errorf("%d requests failed, which should be slow only", n)
	}
	x.judge("broken", before, scrapeOf(x.T, x.admin), true)
	before, after = quick()
	x.judge("mended", before, after, false)
}

func tryPoolBusy(x *tried) {
	x.serve("api,project")
	keys := []string{newCaller(x.T, x.url, x.api, "acme").key}
	for i := range 4 { // one workspace alone does not get all connections
		id := fmt.Sprintf("acme-%d", i)
		succeed(x.T, x.url, "workspace", "create", "--id", id, "--name", id)
		keys = append(keys, newCaller(x.T, x.url, x.api, id).key)
	}
	x.runAlso("status", "--wait")
	before := scrapeOf(x.T, x.admin)
	failed := x.crowd(20, keys...)()
	after := scrapeOf(x.T, x.admin)
	x.judge("sound", before, after, false)
	blocking, unlock := x.lock("invoice")
	waited := x.crowd(20, keys...)
	x.heldUp(7, "1s") // all that may read pages
	x.namesTheBlocker(blocking)
	unlock()
	failed += waited()
	broken := scrapeOf(x.T, x.admin)
	x.judge("broken", after, broken, true)
	failed += x.crowd(20, keys...)()
	x.judge("mended", broken, scrapeOf(x.T, x.admin), false)
	if failed > 0 {
		x.Errorf("%d requests failed, which should wait only", failed)
	}
}

func tryConnectionsRefused(x *tried) {
	x.files = 128 // so that the API has 36 connections, 18 of them from one address
	x.serve("api,project")
	x.runAlso("status", "--wait")
	key := newCaller(x.T, x.url, x.api, "acme").key
	before := scrapeOf(x.T, x.admin)
	for range 40 { // idle ones make room
		conn := testkit.Must(dialFrom("127.0.0.1")(x.Context(), "tcp", strings.TrimPrefix(x.api, "http://")))(x.T)
		x.Cleanup(func() { _ = conn.Close() })
	}
	if n := x.crowd(4, key)(); n > 0 {
		x.Errorf("%d requests failed beside idle connections", n)
	}
	after := scrapeOf(x.T, x.admin)
	x.judge("sound", before, after, false)
	_, unlock := x.lock("invoice")
	first := x.crowd(18, key)
	x.heldUp(1, "500ms") // all have a request under way, and make no room
	more := x.crowd(8, key)
	broken := x.until(`ledgerfeed_connections_refused_total{listener="api"`, above(0))
	unlock()
	first()
	more()
	x.judge("broken", after, broken, true)
	x.serving.await("connections are refused")
	x.serving.stop()
	x.hasOnItsPage("`LEDGERFEED_TRUSTED_PROXIES`")
	x.settings = []string{"LEDGERFEED_TRUSTED_PROXIES=127.0.0.0/8"}
	x.serve("api,project")
	before = x.until("ledgerfeed_ready", above(0))
	_, unlock = x.lock("invoice")
	failed := x.crowd(24, key)
	after = x.until(`ledgerfeed_connections{listener="api"`, above(23))
	unlock()
	if n := failed(); n > 0 {
		x.Errorf("%d requests failed through a proxy that is trusted", n)
	}
	x.judge("mended", before, after, false)
}

// mailServer takes mail for anybody.
type mailServer struct{}

func (mailServer) Reset()                               {}
func (mailServer) Logout() error                        { return nil }
func (mailServer) Mail(string, *smtp.MailOptions) error { return nil }
func (mailServer) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (mailServer) Data(r io.Reader) error               { _, err := io.Copy(io.Discard, r); return err }

func tryMailFails(x *tried) {
	// An address of this machine that nothing else uses: its port stays free in between.
	l := testkit.Must((&net.ListenConfig{}).Listen(x.Context(), "tcp", "127.0.0.25:0"))(x.T)
	address := l.Addr().String()
	if err := l.Close(); err != nil { // nobody listens
		x.Fatal(err)
	}
	receiver := x.hook()
	x.exec(`UPDATE workspace SET notify_email = 'finance@example.com'`)
	x.settings = append(x.settings, "LEDGERFEED_SMTP_URL=smtp://"+address, "LEDGERFEED_MAIL_FROM=ledgerfeed@example.com", "LEDGERFEED_TURN_OFF_AFTER=9s")
	x.serve("api,project,deliver")
	sound := x.until("ledgerfeed_state_read_timestamp_seconds", above(0))
	x.judge("sound", sound, sound, false)
	receiver.Answer(http.StatusInternalServerError)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	broken := x.until("ledgerfeed_mails_failing", above(0))
	x.judge("broken", broken, broken, true)
	x.serving.await("cannot send a mail")
	x.runs("ledgerfeed doctor", cli.ExitFailed, "cannot connect to the mail server")
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return mailServer{}, nil }))
	l = testkit.Must((&net.ListenConfig{}).Listen(x.Context(), "tcp", address))(x.T)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	x.Cleanup(func() { _ = server.Close(); <-done })
	mended := x.until("ledgerfeed_mails_failing", zero)
	x.judge("mended", mended, mended, false)
	if log := x.serving.log.String(); !strings.Contains(log, "sent a mail") {
		x.Errorf("no mail was sent:\n%s", log)
	}
}

// writeCertificate writes a certificate that ends after so long, and its key.
func writeCertificate(t *testing.T, cert, key string, ends time.Duration) {
	t.Helper()
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ends)}
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: testkit.Must(x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private))(t)},
		key:  {Type: "PRIVATE KEY", Bytes: testkit.Must(x509.MarshalPKCS8PrivateKey(private))(t)},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func tryCertificateExpires(x *tried) {
	const metric, day = "ledgerfeed_tls_certificate_expiry_timestamp_seconds", 24 * time.Hour
	dir := x.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	endsIn := func(least, most time.Duration) func(float64) bool {
		return func(v float64) bool {
			left := time.Until(time.Unix(int64(v), 0))
			return least < left && left < most
		}
	}
	writeCertificate(x.T, cert, key, 60*day)
	x.settings = []string{"LEDGERFEED_TLS_CERT=" + cert, "LEDGERFEED_TLS_KEY=" + key}
	x.serve("api,project")
	sound := x.until(metric, endsIn(59*day, 61*day))
	x.judge("sound", sound, sound, false)
	writeCertificate(x.T, cert, key, 2*day)
	broken := x.until(metric, endsIn(day, 3*day))
	x.judge("broken", broken, broken, true)
	writeCertificate(x.T, cert, filepath.Join(dir, "elsewhere.pem"), 90*day) // the key is forgotten
	x.hasOnItsPage(`"the TLS certificate has changed and cannot be read"`)
	testkit.Eventually(x.T, func() error {
		scrapeOf(x.T, x.admin)
		if !strings.Contains(x.serving.log.String(), "the TLS certificate has changed and cannot be read") {
			return errors.New("the log does not say that the key is another's")
		}
		return nil
	})
	writeCertificate(x.T, cert, key, 90*day)
	mended := x.until(metric, endsIn(89*day, 91*day))
	x.judge("mended", mended, mended, false)
}

func tryStateUnknown(x *tried) {
	const metric = "ledgerfeed_state_read_timestamp_seconds"
	later := func(than scrape) func(float64) bool { return above(than.values[metric+`{instance="tried"}`]) }
	x.serve("api")
	first := x.until(metric, above(0))
	sound := x.until(metric, later(first))
	x.judge("sound", first, sound, false)
	blocking, unlock := x.lock("webhook_mail")
	x.heldUp(1, "1s")
	before := scrapeOf(x.T, x.admin)
	x.namesTheBlocker(blocking)
	x.hasOnItsPage(`"cannot read the state of the service for its metrics"`)
	x.serving.await("cannot read the state of the service for its metrics")
	broken := scrapeOf(x.T, x.admin)
	x.judge("broken", before, broken, true)
	unlock()
	mended := x.until(metric, later(broken))
	x.judge("mended", broken, mended, false)
}

func tryNotifications(x *tried) {
	x.serve("api,project")
	sound := x.until("ledgerfeed_ready", above(0))
	x.judge("sound", sound, sound, false)
	const name = "ledgerfeed_notifications_interrupted_total"
	count := func() float64 { return scrapeOf(x.T, x.admin).values[name+`{instance="tried"}`] }
	testkit.Eventually(x.T, func() error { // more than once: it is lost again and again
		flow.Sleep(x.Context(), scrapeEvery)
		x.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%' AND pid <> pg_backend_pid()`)
		if count() < 2 {
			return errors.New("nobody notices")
		}
		return nil
	})
	broken := scrapeOf(x.T, x.admin)
	x.judge("broken", sound, broken, true)
	// It listens again by itself.
	testkit.Eventually(x.T, func() error {
		var sessions int
		err := x.conn.QueryRow(x.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%' AND pid <> pg_backend_pid()`).Scan(&sessions)
		if err == nil && sessions == 0 {
			err = errors.New("nobody listens")
		}
		return err
	})
	mended := scrapeOf(x.T, x.admin)
	x.judge("mended", mended, mended, false)
}
