package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// consumer is a log with a running Subscriber, whose messages a test handles.
type consumer struct {
	*bundle
	t        *testing.T
	logged   *testkit.Buffer
	notifier *eventlog.Notifier
	sub      *eventlog.Subscriber
	messages <-chan *message.Message
}

func startConsumer(t *testing.T, entries int) *consumer {
	t.Helper()
	c := &consumer{bundle: setup(t), t: t, logged: &testkit.Buffer{}}
	c.exec(t, `CREATE TABLE handled (workspace_id text COLLATE "C", position bigint, PRIMARY KEY (workspace_id, position))`)
	c.start(entries)
	return c
}

// start starts a Subscriber, as a new process does.
func (c *consumer) start(entries int) {
	c.startWith(eventlog.SubscriberConfig{Workers: 2, Entries: entries})
}

// startWith starts a Subscriber with what a test sets of its configuration.
func (c *consumer) startWith(cfg eventlog.SubscriberConfig) {
	c.t.Helper()
	logger := c.logged.Logger()
	c.notifier = eventlog.NewNotifier(c.pool, logger)
	c.log = newLog(c.t, eventlog.Config{Pool: c.pool, Clock: c.clock.Now, Notify: c.notifier.Notify})
	cfg.Pool, cfg.Notifier = c.pool, c.notifier
	cfg.Clock, cfg.Logger, cfg.Sweep = c.clock.Now, logger, 5*time.Millisecond
	sub, err := eventlog.NewSubscriber(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sub = sub
	ctx, cancel := context.WithCancel(context.Background())
	c.messages, err = sub.Subscribe(ctx, eventlog.ReadModels)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cancel()
		for msg := range c.messages {
			msg.Nack()
		}
		_ = sub.Close()
	})
}

// TestASweepThatHadToWait: entries of which nobody was notified are found after the database can
// be read again. TestPauseAfterASweep tests how soon.
func TestASweepThatHadToWait(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 100)
	quiet := newLog(t, eventlog.Config{Pool: c.pool, Clock: c.clock.Now}) // notifies nobody
	testkit.Must(quiet.Append(t.Context(), client(t, "a", "cl_1", "One")))(t)
	c.drain()
	tx := testkit.Must(c.pool.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE log_checkpoint IN ACCESS EXCLUSIVE MODE`))(t)
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, c.pool, 1) })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Must(quiet.Append(t.Context(), client(t, "a", "cl_2", "Two")))(t)
	c.drain()
}

// next is the next message, with its claim.
func (c *consumer) next() (*message.Message, *eventlog.Claim) {
	c.t.Helper()
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("logged:\n%s", c.logged)
		}
	})
	msg := testkit.Receive(c.t, c.messages, "a message")
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		c.t.Fatal(err)
	}
	return msg, claim
}

// handle does a handler's work: a row for each entry.
func handle(t *testing.T, msg *message.Message, claim *eventlog.Claim) {
	t.Helper()
	for i := range claim.Segments {
		for j := range claim.Segments[i].Entries {
			e := &claim.Segments[i].Entries[j]
			if _, err := claim.Tx.Exec(msg.Context(), `INSERT INTO handled VALUES ($1, $2)`, e.WorkspaceID, e.Position); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// drain handles messages until all workspaces are at their heads.
func (c *consumer) drain() {
	c.t.Helper()
	for c.behind() > 0 {
		c.handleOne()
	}
}

// handleOne handles a message if one comes; a commit may still be under way.
func (c *consumer) handleOne() {
	c.t.Helper()
	msg, offered := testkit.Offered(c.messages)
	if !offered {
		return
	}
	claim, err := eventlog.ClaimOf(msg)
	if err != nil {
		c.t.Fatal(err)
	}
	handle(c.t, msg, claim)
	msg.Ack()
}

func (c *consumer) behind() (entries int64) {
	c.t.Helper()
	for _, p := range c.progress() {
		entries += p.Head - p.Position
	}
	return entries
}

func (c *consumer) progress() []eventlog.Progress {
	c.t.Helper()
	list, err := eventlog.ReadProgress(c.t.Context(), c.pool, eventlog.ReadModels, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

// eventually waits for a condition of the database.
func (c *consumer) eventually(what string, holds func() bool) {
	c.t.Helper()
	testkit.Eventually(c.t, func() error {
		if !holds() {
			return fmt.Errorf("%s; logged:\n%s", what, c.logged)
		}
		return nil
	})
}

// exactlyOnce checks that every entry was handled. The primary key prevents that
// one is handled twice.
func (c *consumer) exactlyOnce() {
	c.t.Helper()
	var missing int64
	err := c.pool.QueryRow(c.t.Context(), `
		SELECT count(*) FROM event_log e WHERE NOT EXISTS (
		       SELECT FROM handled h WHERE h.workspace_id = e.workspace_id AND h.position = e.position)`).Scan(&missing)
	if err != nil {
		c.t.Fatal(err)
	}
	if missing > 0 {
		c.t.Fatalf("%d entries were acknowledged and never handled", missing)
	}
}

func (c *consumer) handledRows() (n int64) {
	c.t.Helper()
	if err := c.pool.QueryRow(c.t.Context(), `SELECT count(*) FROM handled`).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *consumer) fill(workspaceID string, entries int) {
	c.t.Helper()
	var drafts []domain.Draft
	for i := range entries {
		drafts = append(drafts, client(c.t, workspaceID, fmt.Sprintf("e%d", i), fmt.Sprint(i)))
	}
	c.append(c.t, drafts...)
}

func TestSubscriberGivesEveryEntryOnceInOrder(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	for i := range 5 {
		c.fill(fmt.Sprintf("w%d", i), 7*i+1)
	}
	next := map[string]int64{}
	for c.behind() > 0 {
		msg, claim := c.next()
		for i := range claim.Segments {
			s := &claim.Segments[i]
			if s.After != next[s.WorkspaceID] {
				t.Fatalf("%s: a segment after %d, want after %d", s.WorkspaceID, s.After, next[s.WorkspaceID])
			}
			next[s.WorkspaceID] = s.End()
		}
		handle(t, msg, claim)
		msg.Ack()
		c.eventually("the claim is committed", func() bool { return c.handledRows() >= sum(next) })
	}
	c.exactlyOnce()
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// TestNackRollsBack: what the handler wrote is rolled back, and the entries come again
// in a new transaction. (watermill-sql's subscriber gives them again in the same one,
// and commits what was written.)
func TestNackRollsBack(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	c.fill("w", 3)
	msg, claim := c.next()
	handle(t, msg, claim)
	msg.Nack()
	c.eventually("the failure is recorded", func() bool { return c.progress()[0].Failures == 1 })
	if n := c.handledRows(); n != 0 {
		t.Fatalf("%d rows of a refused segment were kept", n)
	}
	c.clock.Advance(time.Minute)
	c.drain()
	c.exactlyOnce()
}

// TestAnSQLErrorCostsOneAttempt: it does not affect the next attempt.
func TestAnSQLErrorCostsOneAttempt(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	c.fill("w", 3)
	msg, claim := c.next()
	if _, err := claim.Tx.Exec(msg.Context(), `SELECT 1/0`); err == nil {
		t.Fatal("want an error")
	}
	msg.Nack()
	c.eventually("the failure is recorded", func() bool { return c.progress()[0].Failures == 1 })
	c.clock.Advance(time.Minute)
	msg, claim = c.next()
	handle(t, msg, claim) // fails the test if the transaction is aborted
	msg.Ack()
	c.eventually("projected", func() bool { return c.behind() == 0 })
	if p := c.progress()[0]; p.Failures != 0 || p.Error != "" {
		t.Fatalf("the failure is over but still recorded: %+v", p)
	}
	c.eventually("a line that it is over", func() bool { return contains(c.logged.String(), "the workspace goes on as usual") })
	c.exactlyOnce()
}

// TestCloseFinishesWhatIsUnderWay: Close waits for the handler under way, and commits
// all of its work with the checkpoint. (watermill-sql's subscriber can commit half.)
func TestCloseFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	c.fill("w", 3)
	msg, claim := c.next()
	half := claim.Segments[0].Entries[:2]
	for i := range half {
		if _, err := claim.Tx.Exec(msg.Context(), `INSERT INTO handled VALUES ('w', $1)`, half[i].Position); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = c.sub.Close()
	}()
	if n := c.handledRows(); n != 0 {
		t.Fatalf("%d rows of half a handler are there", n)
	}
	if err := msg.Context().Err(); err != nil {
		t.Fatalf("closing ended the handler's context: %v", err)
	}
	if _, err := claim.Tx.Exec(msg.Context(), `INSERT INTO handled VALUES ('w', 3)`); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
		t.Fatal("Close returned while a handler was at work")
	default:
	}
	msg.Ack()
	<-closed
	if c.behind() != 0 {
		t.Fatal("Close returned before the work was committed")
	}
	c.exactlyOnce()
	if _, open := <-c.messages; open {
		t.Fatal("a message after Close")
	}
	if _, err := c.sub.Subscribe(t.Context(), eventlog.ReadModels); err == nil {
		t.Fatal("a closed subscriber took a subscription")
	}
}

// TestCloseCutsOffWhatTakesTooLong: a handler whose statement gets no answer does not hold up the
// end of the program. Its claim is rolled back, and that is no failure.
func TestCloseCutsOffWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := &consumer{bundle: setup(t), t: t, logged: &testkit.Buffer{}}
	c.exec(t, `CREATE TABLE handled (workspace_id text COLLATE "C", position bigint, PRIMARY KEY (workspace_id, position))`)
	c.startWith(eventlog.SubscriberConfig{Entries: 10, Grace: time.Millisecond})
	c.fill("w", 3)
	msg, claim := c.next()
	handle(t, msg, claim)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = c.sub.Close()
	}()
	if _, err := claim.Tx.Exec(msg.Context(), `SELECT pg_sleep(3600)`); err == nil {
		t.Error("the statement has ended by itself")
	}
	msg.Nack()
	<-closed
	if n := c.handledRows(); n != 0 {
		t.Errorf("%d rows of a claim that was cut off were kept", n)
	}
	if p := c.progress()[0]; p.Failures != 0 {
		t.Errorf("a failure was recorded: %+v", p)
	}
	c.start(10)
	c.drain()
	c.exactlyOnce()
}

// TestAFailingReadIsNotAnEmptyLog: a read that fails is logged and retried. (For
// watermill-sql's subscriber it is a log without new entries.)
func TestAFailingReadIsNotAnEmptyLog(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	c.fill("w", 3)
	msg, _ := c.next()
	msg.Nack()
	c.eventually("the failure is recorded", func() bool { return c.progress()[0].Failures == 1 })
	c.exec(t, `ALTER TABLE event_log RENAME COLUMN data TO moved`)
	c.clock.Advance(time.Minute)
	c.eventually("a warning", func() bool { return contains(c.logged.String(), "cannot claim entries") })
	c.exec(t, `ALTER TABLE event_log RENAME COLUMN moved TO data`)
	c.drain()
	c.exactlyOnce()
	c.eventually("a line that it works again", func() bool { return contains(c.logged.String(), "entries are claimed again") })
}

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestOpenTransactionsHoldNothingUp: a transaction that stays open, here or in another
// database of the server, delays nothing. (watermill-sql's subscriber waits for the
// oldest one.)
func TestOpenTransactionsHoldNothingUp(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 10)
	elsewhere := testkit.Pool(t)
	for _, pool := range []interface {
		Exec(ctx context.Context, sql string) error
	}{openWriter{t, c.bundle}, openWriter{t, &bundle{pool: elsewhere}}} {
		if err := pool.Exec(t.Context(), `CREATE TABLE busy (n int)`); err != nil {
			t.Fatal(err)
		}
	}
	c.fill("w", 30)
	c.drain()
	c.exactlyOnce()
}

// openWriter runs a statement in a transaction that stays open until the test ends.
type openWriter struct {
	t *testing.T
	b *bundle
}

func (o openWriter) Exec(ctx context.Context, sql string) error {
	_, err := o.b.begin(o.t).Exec(ctx, sql)
	return err
}

// TestOneBadEntryStopsOnlyItsWorkspace: its workspace stops right before it, and
// nothing is acknowledged that was not handled. (watermill-sql's queue lost 96 of 100
// after one bad message.)
func TestOneBadEntryStopsOnlyItsWorkspace(t *testing.T) {
	t.Parallel()
	c := startConsumer(t, 100)
	c.fill("bad", 100)
	for i := range 9 {
		c.fill(fmt.Sprintf("good%d", i), 100)
	}
	const poison = 63
	handled := func(skip func(*domain.Entry) bool) func() bool {
		return func() bool {
			select {
			case msg := <-c.messages:
				claim, err := eventlog.ClaimOf(msg)
				if err != nil {
					t.Fatal(err)
				}
				for i := range claim.Segments {
					for j := range claim.Segments[i].Entries {
						if skip(&claim.Segments[i].Entries[j]) {
							_, _ = eventlog.KeepError(func(*message.Message) ([]*message.Message, error) {
								return nil, errors.New("this entry is poison")
							})(msg)
							msg.Nack()
							return false
						}
					}
				}
				handle(t, msg, claim)
				msg.Ack()
			default:
				c.clock.Advance(time.Second) // until the next attempt is due
			}
			for _, p := range c.progress() {
				if p.WorkspaceID == "bad" && !p.Quarantined || p.WorkspaceID != "bad" && p.Position != p.Head {
					return false
				}
			}
			return true
		}
	}
	c.eventually("the bad workspace is quarantined and the others are done",
		handled(func(e *domain.Entry) bool { return e.WorkspaceID == "bad" && e.Position == poison }))
	p := c.progress()[0]
	if p.Position != poison-1 || p.Error != "this entry is poison" {
		t.Fatalf("quarantined with %+v, want it right before position %d with the reason", p, poison)
	}
	// A newer version, which can handle it, tries it at once.
	_ = c.sub.Close()
	for msg := range c.messages {
		msg.Nack()
	}
	c.start(100)
	c.drain()
	c.exactlyOnce()
	if p := c.progress()[0]; p.Quarantined || p.Failures != 0 || p.Error != "" {
		t.Fatalf("the failure is over but still recorded: %+v", p)
	}
}

// TestTwoSubscribersShareTheWork: two instances do all of it, and nothing twice. Each
// has its own pool, as in production: claims that wait to be handled hold their
// connections, and those of two instances would exhaust one pool.
func TestTwoSubscribersShareTheWork(t *testing.T) {
	t.Parallel()
	a := startConsumer(t, 20)
	other := &bundle{pool: wide(t, a.pool.Config().ConnString(), 4), clock: a.clock}
	b := &consumer{bundle: other, t: t, logged: &testkit.Buffer{}}
	b.start(20)
	for i := range 20 {
		a.fill(fmt.Sprintf("w%d", i), 50)
	}
	for a.behind() > 0 {
		a.handleOne()
		b.handleOne()
	}
	a.exactlyOnce()
}

// TestClaimsDoNotWaitForEachOther: a claim needs a second connection for a moment, so not all
// connections may be those of claims.
func TestClaimsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	a := setup(t)
	if _, err := eventlog.NewSubscriber(eventlog.SubscriberConfig{
		Pool: wide(t, a.pool.Config().ConnString(), 1), Notifier: eventlog.NewNotifier(a.pool, testkit.Discard()), Clock: a.clock.Now, Logger: testkit.Discard(),
	}); err == nil {
		t.Error("a pool of one connection is taken")
	}
	a.exec(t, `CREATE TABLE handled (workspace_id text COLLATE "C", position bigint, PRIMARY KEY (workspace_id, position))`)
	for i := range 30 {
		testkit.Must(a.log.Append(t.Context(), client(t, fmt.Sprintf("w%d", i), "cl_1", "One")))(t)
	}
	c := &consumer{bundle: &bundle{pool: wide(t, a.pool.Config().ConnString(), 2), clock: a.clock}, t: t, logged: &testkit.Buffer{}}
	c.startWith(eventlog.SubscriberConfig{Workers: 4, MassWorkers: 2, Workspaces: 1})
	behind := &consumer{bundle: a, t: t, logged: c.logged}
	patience, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for behind.behind() > 0 {
		if c.handleOne(); patience.Err() != nil {
			t.Fatalf("claims wait for each other; %d entries are left; logged:\n%s", behind.behind(), c.logged)
		}
	}
	behind.exactlyOnce()
}
