//go:build outside

package ingest_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/mariadb"
)

// shop is a producer with a database of its own in MariaDB.
type shop struct {
	t      *testing.T
	server *mariadb.Server
	name   string
	db     *sql.DB
}

// newShop makes a database with the outbox of the guide.
func newShop(t *testing.T, server *mariadb.Server) *shop {
	t.Helper()
	p := &shop{t: t, server: server, name: fmt.Sprintf("shop%d", rand.Uint64())}
	testkit.Must(server.Open("").ExecContext(t.Context(), "CREATE DATABASE "+p.name))(t)
	p.db = server.Open(p.name)
	p.exec(string(testkit.Must(os.ReadFile("../../docs/guides/outbox/mysql.sql"))(t)))
	return p
}

func (p *shop) exec(query string, args ...any) {
	p.t.Helper()
	testkit.Must(p.db.ExecContext(p.t.Context(), query, args...))(p.t)
}

// url is the address at the socket, as root.
func (p *shop) url() string {
	return "mariadb://root@/" + p.name + "?socket=" + url.QueryEscape(p.server.Socket())
}

func (p *shop) source() ingest.Source { return p.at(p.url()) }

func (p *shop) at(address string) ingest.Source {
	p.t.Helper()
	source := testkit.Must(ingest.OpenOutbox(context.Background(), testkit.Must(ingest.ParseTarget(address))(p.t), testkit.Discard()))(p.t)
	p.t.Cleanup(source.Close)
	return source
}

// inserter is a database or a transaction.
type inserter interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// publish inserts messages, as the guide says.
func (p *shop) publish(in inserter, messages ...*message.Message) {
	p.t.Helper()
	for _, m := range messages {
		testkit.Must(in.ExecContext(p.t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (?, ?)`, m.UUID, string(m.Payload)))(p.t)
	}
}

func (p *shop) begin() *sql.Tx {
	p.t.Helper()
	tx := testkit.Must(p.db.BeginTx(p.t.Context(), nil))(p.t)
	p.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// nextIs reads the next batch, by the UUIDs of its messages.
func nextIs(t *testing.T, source ingest.Source, want string) *ingest.Batch {
	t.Helper()
	b := testkit.Must(source.Next(t.Context()))(t)
	var got []string
	if b != nil {
		for _, m := range b.Messages {
			got = append(got, m.UUID)
		}
	}
	if strings.Join(got, " ") != want {
		t.Fatalf("the next messages are %v, want %s", got, want)
	}
	return b
}

// TestMariaDB has the tests that need no server of their own.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	server := mariadb.Start(t)
	for name, test := range map[string]func(*testing.T, *mariadb.Server){
		"is appended once and in order": mariadbOnce, "late commits": mariadbLate, "one process reads": mariadbOvertaken, "poison": mariadbPoison,
		"rights": mariadbRights, "tables": mariadbTables, "errors": mariadbErrors,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
}

func mariadbOnce(t *testing.T, server *mariadb.Server) {
	n, p := install(t), newShop(t, server)
	_, stop := n.start(p.source(), n.metrics)
	n.start(p.source(), nil) // another process
	want := map[string][]string{}
	for i := range 300 {
		w, id := fmt.Sprintf("w%d", i%7), fmt.Sprintf("e%d", i)
		want[w] = append(want[w], id)
		tx := p.begin()
		p.publish(tx, msg(id, line(w, id)), msg(id+"x", line(w, id))) // twice
		testkit.Must(0, tx.Commit())(t)
		tx = p.begin()
		p.publish(tx, msg("never", line(w, "never")))
		testkit.Must(0, tx.Rollback())(t)
		if i == 150 {
			stop()
		}
	}
	for w, ids := range want {
		n.eventuallyHolds(w, ids)
	}
}

// mariadbLate: messages with lower offsets that are committed later are read, and nobody waits for
// them. While ingest appends, producers insert.
func mariadbLate(t *testing.T, server *mariadb.Server) {
	p := newShop(t, server)
	source := p.source()
	nextIs(t, source, "")
	late, lost := p.begin(), p.begin()
	for _, tx := range []*sql.Tx{late, lost} {
		testkit.Must(tx.ExecContext(t.Context(), `SET innodb_lock_wait_timeout = 1`))(t)
	}
	p.publish(late, msg("late1", ""))
	p.publish(lost, msg("lost", ""))
	p.publish(p.db, msg("early", ""))
	b := nextIs(t, source, "early")
	p.publish(late, msg("late2", ""))
	p.publish(p.db, msg("more", ""))
	if lag := testkit.Must(source.Lag(t.Context()))(t); lag != 2 {
		t.Errorf("%d messages wait, want early and more", lag)
	}
	testkit.Must(0, lost.Rollback())(t)
	testkit.Must(0, late.Commit())(t)
	testkit.Must(0, b.Done(t.Context(), nil))(t)
	b = nextIs(t, source, "late1 late2 more")
	testkit.Must(0, b.Done(t.Context(), nil))(t)
	nextIs(t, source, "")
}

// mariadbOvertaken: one process reads at a time. If another one takes over meanwhile, the first one
// keeps no dead letter.
func mariadbOvertaken(t *testing.T, server *mariadb.Server) {
	p := newShop(t, server)
	first, second := p.source(), p.source()
	p.publish(p.db, msg("a", "{}"))
	b := nextIs(t, first, "a")
	nextIs(t, second, "")
	var session int
	testkit.Must(0, p.db.QueryRowContext(t.Context(), `SELECT IS_USED_LOCK(CONCAT('ledgerfeed ', MD5(CONCAT(DATABASE(), '.ledgerfeed'))))`).Scan(&session))(t)
	p.exec(fmt.Sprintf("KILL %d", session)) // as MariaDB does when a process dies
	var other *ingest.Batch
	testkit.Eventually(t, func() (err error) {
		if other, err = second.Next(t.Context()); err == nil && other == nil {
			err = fmt.Errorf("the lock is not free")
		}
		return err
	})
	dead := []ingest.Dead{{Message: &b.Messages[0], Reason: "type is missing"}}
	if err := b.Done(t.Context(), dead); err == nil {
		t.Error("the session is gone, and its work is not")
	}
	nextIs(t, first, "")
	p.exec(`UPDATE watermill_ledgerfeed SET acked = TRUE`)
	if err := other.Done(t.Context(), dead); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("overtaken: %v", err)
	}
	lettersAre(t, first)
	p.exec(`UPDATE watermill_ledgerfeed SET acked = FALSE`)
	b = nextIs(t, first, "a")
	testkit.Must(0, b.Done(t.Context(), []ingest.Dead{{Message: &b.Messages[0], Reason: "type is missing"}}))(t)
	lettersAre(t, second, [2]string{"a", "type is missing"})
}

// mariadbPoison: a message that the log refuses holds nothing up, however large it is. It can be
// retried.
func mariadbPoison(t *testing.T, server *mariadb.Server) {
	n, p := install(t), newShop(t, server)
	n.refuses = true
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('w', 'W', now())`))(t)
	const large = 15 << 20 // the server's limit is 16 MiB
	p.publish(p.db, msg("m1", line("w", "a")), msg("m2", `{"workspace_id":"w"}`), msg("m3", line("w", "b")), msg("m4", "no JSON"), msg("m5", strings.Repeat("x", large)),
		msg("m6", strings.Repeat("y", large)), msg("m7", line("later", "c")))
	p.exec(`INSERT INTO watermill_ledgerfeed (uuid, payload, metadata) VALUES ('m8', ?, '{"a":{"b":1}}'), ('m9', NULL, NULL), ('日本', ?, '{"a":"é"}')`, line("w", "z"), strings.Replace(line("w", "x"), `"id":"x",`, "", 1))
	p.publish(p.db, msg("m10", line("w", "d")))
	_, stop := n.start(keepsOpen{p.source()}, n.metrics)
	n.eventuallyHolds("w", []string{"a", "b", "d"})
	source := p.at(p.url() + "&topic=ledgerfeed")
	bury(t, source, 8)
	stop()
	var letters []ingest.Letter
	newest := testkit.Must(source.Newest(t.Context()))(t)
	testkit.Must(0, ingest.Pages(t.Context(), source, newest.ID, func(page []ingest.Letter) error {
		letters = append(letters, page...)
		return nil
	}))(t)
	var got []string
	for i := range letters {
		got = append(got, letters[i].Message.UUID)
	}
	if strings.Join(got, " ") != "m2 m4 m5 m6 m7 m8 m9 日本" || len(letters[2].Message.Payload) != large || letters[7].Message.Metadata["a"] != "é" {
		t.Fatalf("the dead letters are %v", got)
	}
	testkit.Must(0, source.Settle(t.Context(), []ingest.LetterID{letters[2].ID, letters[3].ID}, nil))(t)
	unreadable := "the message cannot be read"
	lettersAre(t, source, [2]string{"m2", "is missing"}, [2]string{"m4", "want an entry"}, [2]string{"m7", "no workspace later"}, [2]string{"m8", unreadable}, [2]string{"m9", "want an entry"}, [2]string{"日本", "has no id"})
	n.refuses, n.rules.Workspace = false, "later"
	if r := testkit.Must(n.retry(source))(t); r.Appended != 1 || len(r.Kept) != 5 {
		t.Errorf("%+v", r)
	}
	n.eventuallyHolds("later", []string{"c"})
	if list, err := source.Letters(t.Context(), ingest.LetterID{1, 1}, 10); len(list) > 0 || err != nil {
		t.Errorf("%+v %v for an id of PostgreSQL", list, err)
	}
}

// mariadbRights: docs/operations/ingest.md says which rights there have to be. The connection has TLS.
func mariadbRights(t *testing.T, server *mariadb.Server) {
	n, p := install(t), newShop(t, server)
	p.publish(p.db, msg("m1", `{}`))
	owner := p.source()
	_, stop := n.start(keepsOpen{owner}, nil)
	bury(t, owner, 1)
	stop()
	owner.Close()
	account := func(grants ...string) string {
		name := fmt.Sprintf("u%d", rand.Uint64())
		p.exec("CREATE USER " + name + "@'%' IDENTIFIED BY 'hunter@2'")
		t.Cleanup(func() { testkit.Must(p.db.ExecContext(context.Background(), "DROP USER "+name))(t) })
		for _, grant := range grants {
			p.exec("GRANT " + grant + " TO " + name + "@'%'")
		}
		return "mysql://" + name + ":hunter%402@" + server.Host + "/" + p.name
	}
	address := account("SELECT, UPDATE (acked) ON watermill_ledgerfeed", "SELECT, INSERT, UPDATE, DELETE ON watermill_ledgerfeed_dead")
	source := p.at(address + "?ca=" + url.QueryEscape(server.CA))
	p.publish(p.db, msg("m2", line("w", "a")), msg("m3", `{}`))
	_, stop = n.start(keepsOpen{source}, nil)
	n.eventuallyHolds("w", []string{"a"})
	bury(t, source, 2)
	stop()
	if r := testkit.Must(n.retry(source))(t); len(r.Kept) != 2 {
		t.Errorf("%+v", r)
	}
	source.Close()
	for query, want := range map[string]string{
		"?tls=true":        "correct tls or ca in LEDGERFEED_INGEST_URL",
		"?tls=false":       "the password or tls in LEDGERFEED_INGEST_URL",
		"?tls=skip-verify": "",
		"":                 "",
		"?ca=" + url.QueryEscape(server.CA) + "&tls=false":       "",
		"?tls=preferred&ca=" + url.QueryEscape(server.CA+".not"): "the file that ca names",
	} {
		source, err := ingest.OpenOutbox(t.Context(), testkit.Must(ingest.ParseTarget(address+query))(t), testkit.Discard())
		if err == nil {
			_, err = source.Waiting(t.Context())
			source.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	for _, weak := range []string{account("SELECT ON watermill_ledgerfeed", "SELECT, INSERT ON watermill_ledgerfeed_dead"), account("SELECT, UPDATE ON watermill_ledgerfeed")} {
		p.publish(p.db, msg("m4", `{}`))
		source := p.at(weak)
		b, err := source.Next(t.Context())
		if err == nil {
			err = b.Done(t.Context(), nil)
		}
		if err == nil || !strings.Contains(err.Error(), "needs the rights that docs/operations/ingest.md lists") {
			t.Errorf("%v", err)
		}
		source.Close()
	}
}

// mariadbTables: ingest makes what is missing as the guide does, and says what it cannot read.
func mariadbTables(t *testing.T, server *mariadb.Server) {
	p := newShop(t, server)
	n := install(t)
	form := func(table string) (text string) {
		testkit.Must(0, p.db.QueryRowContext(t.Context(), "SHOW CREATE TABLE "+table).Scan(new(string), &text))(t)
		return strings.ReplaceAll(text, table, "T")
	}
	want := form("watermill_ledgerfeed")
	source := testkit.Must(ingest.OpenOutbox(t.Context(), testkit.Must(ingest.ParseTarget(p.url()+"&topic=other"))(t), n.logged.Logger()))(t)
	t.Cleanup(source.Close)
	if waiting, err := source.Waiting(t.Context()); waiting != 0 || err != nil {
		t.Errorf("without a table: %d, %v", waiting, err)
	}
	nextIs(t, source, "")
	if got := form("watermill_other"); got != want {
		t.Errorf("ingest makes\n%s\nand the guide\n%s", got, want)
	}
	if said := n.logged.String(); !strings.Contains(said, "other_outboxes=watermill_ledgerfeed") || strings.Count(said, "made the outbox's table") != 1 {
		t.Errorf("the log says %s", said)
	}
	source.Close()
	for change, want := range map[string]string{
		"ALTER TABLE watermill_%s DROP KEY acked":    "docs/guides/outbox/mysql.sql",
		"ALTER TABLE watermill_%s DROP COLUMN acked": "docs/guides/outbox/mysql.sql",
	} {
		topic := fmt.Sprintf("t%d", rand.Uint64())
		source := p.at(p.url() + "&topic=" + topic)
		nextIs(t, source, "")
		source.Close()
		p.exec(fmt.Sprintf(change, topic))
		source = p.at(p.url() + "&topic=" + topic)
		if _, err := source.Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change, err, want)
		}
		source.Close()
	}
}

// mariadbErrors: each sentence names the setting and the next step, and no part of a password.
func mariadbErrors(t *testing.T, server *mariadb.Server) {
	p := newShop(t, server)
	for address, want := range map[string]string{
		"mysql://root:hunter2@" + server.Host + "/" + p.name:                         "correct the user, the password or tls in LEDGERFEED_INGEST_URL",
		"mysql://root@/nowhere?socket=" + url.QueryEscape(server.Socket()):           "correct its name in LEDGERFEED_INGEST_URL",
		"mysql://root:hunter2@" + server.Host + ":1/" + p.name:                       "connection refused; check that MySQL or MariaDB runs there",
		"mysql://root:hunter2@name.invalid/" + p.name:                                "correct the host in LEDGERFEED_INGEST_URL",
		"mysql://root:hunter2@/" + p.name + "?socket=" + url.QueryEscape("/nowhere"): "no such file or directory; check that",
	} {
		if _, err := p.at(address).Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// TestMariaDBAndIngestAreKilled: producers commit in any order while processes that ingest, and
// MariaDB itself, are killed at random moments. Each workspace has its entries once and in order, and
// each message that the log refuses is a dead letter once.
func TestMariaDBAndIngestAreKilled(t *testing.T) {
	t.Parallel()
	server := mariadb.Start(t)
	n, p := install(t), newShop(t, server)
	p.exec(`CREATE TABLE facts (workspace VARCHAR(64) PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB`)
	random := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	const workspaces = 5
	entries := testkit.Scale(60, 400)
	var (
		producers sync.WaitGroup
		away      sync.RWMutex // held while MariaDB is killed
	)
	for w := range workspaces {
		workspace, own := fmt.Sprintf("w%d", w), rand.New(rand.NewPCG(random.Uint64(), 1))
		p.exec(`INSERT INTO facts VALUES (?, 0)`, workspace)
		for range 2 { // whose transactions wait for one another
			turns := rand.New(rand.NewPCG(own.Uint64(), 1))
			producers.Go(func() {
				for done := 0; done < entries && t.Context().Err() == nil; {
					var err error
					if done, err = p.fact(workspace, entries, turns); err != nil { // MariaDB was killed
						away.RLock()
						_ = p.db.PingContext(t.Context())
						away.RUnlock()
					}
				}
			})
		}
	}
	whole := make(chan struct{})
	go func() {
		producers.Wait()
		close(whole)
	}()
	appended := func() (count int) {
		testkit.Must(0, n.pool.QueryRow(t.Context(), `SELECT count(*) FROM event_log`).Scan(&count))(t)
		return count
	}
	for kills := 0; ; kills++ {
		child := testkit.Child(ingestVariable + "=" + p.url() + " " + n.url)
		testkit.Must(0, child.Start())(t)
		next := min(appended()+1+random.IntN(workspaces*entries/8), workspaces*entries)
		testkit.Eventually(t, func() error {
			if count := appended(); count < next {
				return fmt.Errorf("%d entries, want %d", count, next)
			}
			return nil
		})
		if next < workspaces*entries && kills%2 == 1 {
			away.Lock()
			server.Kill()
			server.Run()
			away.Unlock()
		}
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
		if next == workspaces*entries {
			break
		}
	}
	<-whole
	source := p.source()
	var dead int64
	testkit.Must(0, p.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM watermill_ledgerfeed WHERE payload = '{}'`).Scan(&dead))(t)
	n.start(keepsOpen{source}, nil)
	testkit.Eventually(t, func() error {
		if lag, err := source.Lag(t.Context()); lag != 0 || err != nil {
			return fmt.Errorf("%d messages wait, %w", lag, err)
		}
		return nil
	})
	if dead == 0 {
		t.Error("no message was to be refused")
	}
	bury(t, source, dead)
	for w := range workspaces {
		want := make([]string, entries)
		for i := range want {
			want[i] = fmt.Sprint("e", i+1)
		}
		n.eventuallyHolds(fmt.Sprint("w", w), want)
	}
}

// fact publishes the next fact of a workspace in the transaction that counts it, and returns how many
// there are.
func (p *shop) fact(workspace string, most int, random *rand.Rand) (count int, err error) {
	tx, err := p.db.BeginTx(p.t.Context(), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(p.t.Context(), `SELECT n FROM facts WHERE workspace = ? FOR UPDATE`, workspace).Scan(&count); err != nil || count == most {
		return count, err
	}
	id := fmt.Sprint("e", count+1)
	insert := []string{line(workspace, id)}
	if random.IntN(4) == 0 {
		insert = append(insert, "{}")
	}
	for _, payload := range insert {
		if _, err := tx.ExecContext(p.t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (UUID(), ?)`, payload); err != nil {
			return count, err
		}
	}
	for range random.IntN(20) { // others commit meanwhile
		if _, err := tx.ExecContext(p.t.Context(), `DO 1`); err != nil {
			return count, err
		}
	}
	if random.IntN(5) == 0 {
		return count, nil // rolled back: its offsets are left out
	}
	if _, err := tx.ExecContext(p.t.Context(), `UPDATE facts SET n = n + 1 WHERE workspace = ?`, workspace); err != nil {
		return count, err
	}
	return count, tx.Commit()
}
