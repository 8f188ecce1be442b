package watermillsql_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// projecting makes the database move the visible position with every append, in
// place of the projector.
func (b *bundle) projecting(t *testing.T) {
	t.Helper()
	b.exec(t, `
		CREATE FUNCTION show() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		    UPDATE log_checkpoint SET position = NEW.position WHERE workspace_id = NEW.workspace_id AND consumer = 'read_models';
		    RETURN NULL;
		END $$`)
	b.exec(t, `CREATE TRIGGER show AFTER UPDATE ON log_head FOR EACH ROW EXECUTE FUNCTION show()`)
}

// show moves the visible position by hand.
func (b *bundle) show(t *testing.T, workspaceID string, position int64) {
	t.Helper()
	b.exec(t, `UPDATE log_checkpoint SET position = $2 WHERE workspace_id = $1 AND consumer = 'read_models'`, workspaceID, position)
}

// member starts a member of a consumer group; the end of the test closes it.
func (b *bundle) member(t *testing.T, group, workspaceID string, change ...func(*watermillsql.SubscriberConfig)) (<-chan *message.Message, *wsql.Subscriber) {
	t.Helper()
	return memberBy(t, wsql.BeginnerFromPgx(b.pool), group, workspaceID, change...)
}

// memberBy is member with another way to the database.
func memberBy(t *testing.T, by wsql.Beginner, group, workspaceID string, change ...func(*watermillsql.SubscriberConfig)) (<-chan *message.Message, *wsql.Subscriber) {
	t.Helper()
	cfg := watermillsql.SubscriberConfig{ConsumerGroup: group, PollInterval: ms(5), ResendInterval: ms(1)}
	for _, f := range change {
		f(&cfg)
	}
	sub, err := watermillsql.NewSubscriber(by, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	messages, err := sub.Subscribe(t.Context(), workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	return messages, sub
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	return testkit.Receive(t, messages, "a message")
}

func acked(t *testing.T, messages <-chan *message.Message, ids ...string) {
	t.Helper()
	for _, id := range ids {
		m := receive(t, messages)
		if m.UUID != id {
			t.Fatalf("message %s, want %s", m.UUID, id)
		}
		m.Ack()
	}
}

func (b *bundle) checkpoint(t *testing.T, workspaceID, consumer string) (position int64) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = $2`, workspaceID, consumer).Scan(&position)
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// TestSubscriberGivesEntries: it gives every entry as it is in the log, internal ones
// included, and its messages can be published to another workspace.
func TestSubscriberGivesEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	b.append(t, at(sent(t, "w", "a", "i"), noon.AddDate(-1, 0, 0)), client(t, "w", "b", "é \" n"), client(t, "x", "other", "n"))
	messages, _ := b.member(t, "g", "w")
	copies := b.publisher(t, wsql.BeginnerFromPgx(b.pool))
	for _, e := range b.entries(t, "w") {
		m := receive(t, messages)
		want := message.Metadata{
			"type": e.Type, "created_at": e.CreatedAt.Format("2006-01-02T15:04:05.000Z"),
			"position": strconv.FormatInt(e.Position, 10), "workspace_id": "w", "chain": hex.EncodeToString(e.Chain[:]),
		}
		if m.UUID != e.ID || string(m.Payload) != e.Whole() || fmt.Sprint(m.Metadata) != fmt.Sprint(want) {
			t.Errorf("message %s %s %v, want %s %s %v", m.UUID, m.Payload, m.Metadata, e.ID, e.Whole(), want)
		}
		if err := copies.Publish("copy", m); err != nil {
			t.Error(err)
		}
		m.Ack()
	}
	if !slices.Equal(b.ids(t, "copy"), []string{"a", "b"}) {
		t.Errorf("the copy holds %v", b.ids(t, "copy"))
	}
	b.entries(t, "copy")
}

// polls counts the transactions of a subscriber, which polls in one each time.
type polls struct {
	wsql.Beginner
	begun atomic.Int64
}

func (p *polls) BeginTx(ctx context.Context, options *sql.TxOptions) (wsql.Tx, error) {
	p.begun.Add(1)
	return p.Beginner.BeginTx(ctx, options)
}

// TestSubscriberStopsAtTheVisiblePosition: an entry is never given before its
// read models show it.
func TestSubscriberStopsAtTheVisiblePosition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, many(t, "w", 6)...)
	polled := &polls{Beginner: wsql.BeginnerFromPgx(b.pool)}
	messages, _ := memberBy(t, polled, "g", "w")
	for _, visible := range []int64{2, 3, 6} {
		before := b.checkpoint(t, "w", "read_models")
		b.show(t, "w", visible)
		for p := before + 1; p <= visible; p++ {
			m := receive(t, messages)
			if got := m.Metadata.Get(watermillsql.MetadataPosition); got != strconv.FormatInt(p, 10) {
				t.Fatalf("position %s, want %d", got, p)
			}
			m.Ack()
		}
		for until := polled.begun.Load() + 4; polled.begun.Load() < until; { // one may have begun before the last Ack
			if m, offered := testkit.Offered(messages); offered {
				t.Fatalf("position %s came before it was visible", m.Metadata.Get(watermillsql.MetadataPosition))
			}
		}
	}
}

// TestSubscribingBeforeTheWorkspace: a workspace may be subscribed to
// before it exists, which does not create it.
func TestSubscribingBeforeTheWorkspace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	messages, _ := b.member(t, "g", "w")
	if workspaces, err := b.workspaces().IDs(t.Context()); err != nil || len(workspaces) != 0 {
		t.Errorf("workspaces %v, %v", workspaces, err)
	}
	b.append(t, client(t, "w", "a", "n"))
	acked(t, messages, "a")
}

// TestSubscriberResumes: it continues after what was acknowledged, with batches of any
// size.
func TestSubscriberResumes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	b.append(t, many(t, "w", 7)...)
	for _, batch := range []int{0, 1, 3} {
		group := fmt.Sprint("g", batch)
		size := func(c *watermillsql.SubscriberConfig) { c.BatchSize = batch }
		messages, sub := b.member(t, group, "w", size)
		acked(t, messages, "e00000", "e00001", "e00002", "e00003")
		receive(t, messages) // and not acknowledged
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		if got := b.checkpoint(t, "w", "tap:"+group); got != 4 {
			t.Errorf("batches of %d: the group is at %d, want 4", batch, got)
		}
		messages, _ = b.member(t, group, "w", size)
		acked(t, messages, "e00004", "e00005", "e00006")
	}
}

// TestSubscriberSurvivesKilledConnections: nothing is skipped when the database ends
// the connection under a batch.
func TestSubscriberSurvivesKilledConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	const entries = 30
	b.append(t, many(t, "w", entries)...)
	messages, _ := b.member(t, "g", "w", func(c *watermillsql.SubscriberConfig) { c.BatchSize = 4; c.RetryInterval = ms(5) })
	first := map[string]bool{}
	var order []string
	for handled := 0; len(first) < entries; handled++ {
		m := receive(t, messages)
		if handled%7 == 3 {
			b.exec(t, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'idle in transaction'`)
		}
		if !first[m.UUID] {
			first[m.UUID] = true
			order = append(order, m.UUID)
		}
		m.Ack()
	}
	if !slices.IsSorted(order) {
		t.Errorf("order %v", order)
	}
}

// TestOffsetNeverMovesBack: a late member does not change a group's position.
func TestOffsetNeverMovesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	b.append(t, many(t, "w", 3)...)
	messages, _ := b.member(t, "g", "w")
	acked(t, messages, "e00000", "e00001", "e00002")
	testkit.Eventually(t, func() error {
		if got := b.checkpoint(t, "w", "tap:g"); got != 3 {
			return fmt.Errorf("the group is at %d, want 3", got)
		}
		return nil
	})
	q, err := watermillsql.Offsets{}.AckMessageQuery(wsql.AckMessageQueryParams{Topic: "w", ConsumerGroup: "g", LastRow: wsql.Row{Offset: 1}})
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, q.Query, q.Args...)
	if got := b.checkpoint(t, "w", "tap:g"); got != 3 {
		t.Errorf("the group is at %d", got)
	}
}

// TestMembersShareAGroup: each entry goes to one member, in order, as long as no
// message fails.
func TestMembersShareAGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	const entries = 60
	b.append(t, many(t, "w", entries)...)
	var (
		mu    sync.Mutex
		order []string
		all   = make(chan struct{}, 1)
		done  = make(chan struct{})
		group sync.WaitGroup
	)
	for range 3 {
		messages, sub := b.member(t, "g", "w", func(c *watermillsql.SubscriberConfig) { c.BatchSize = 5; c.PollInterval = ms(1) })
		group.Go(func() {
			for m := range messages {
				mu.Lock()
				order = append(order, m.UUID)
				if len(order) == entries {
					all <- struct{}{}
				}
				mu.Unlock()
				m.Ack()
			}
		})
		group.Go(func() {
			<-done
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Receive(t, all, "the last entry")
	// A member that is closed while it commits may give its last messages to
	// another one again, so nobody is closed before the group has passed the end.
	testkit.Eventually(t, func() error {
		if got := b.checkpoint(t, "w", "tap:g"); got != entries {
			return fmt.Errorf("the group is at %d, want %d", got, entries)
		}
		return nil
	})
	close(done)
	group.Wait()
	if len(order) != entries || !slices.IsSorted(order) {
		t.Errorf("%d entries: %v", len(order), order)
	}
}

// TestSubscriberInARouter: it works with Watermill's Router, whose handlers may
// publish what they make to the log.
func TestSubscriberInARouter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.projecting(t)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := watermillsql.NewSubscriber(wsql.BeginnerFromPgx(b.pool), watermillsql.SubscriberConfig{ConsumerGroup: "g", PollInterval: ms(5), ResendInterval: ms(1)})
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	router.AddHandler("mirror", "w", sub, "mirror", b.publisher(t, wsql.BeginnerFromPgx(b.pool)),
		func(m *message.Message) ([]*message.Message, error) {
			if m.UUID == "e00001" && !failed {
				failed = true
				return nil, errors.New("once")
			}
			return []*message.Message{m.Copy()}, nil
		})
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	<-router.Running()
	b.append(t, many(t, "w", 4)...)
	testkit.Eventually(t, func() error {
		if got := len(b.ids(t, "mirror")); got != 4 {
			return fmt.Errorf("the mirror holds %d, want 4", got)
		}
		return nil
	})
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if ids := b.ids(t, "mirror"); !slices.IsSorted(ids) || !failed {
		t.Errorf("the mirror holds %v", ids)
	}
}

func TestSubscriberConfigIsChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, cfg := range map[string]watermillsql.SubscriberConfig{
		"no group":     {},
		"wrong group":  {ConsumerGroup: "a b"},
		"batch size":   {ConsumerGroup: "g", BatchSize: -1},
		"poll":         {ConsumerGroup: "g", PollInterval: -1},
		"ack deadline": {ConsumerGroup: "g", AckDeadline: -1},
	} {
		if _, err := watermillsql.NewSubscriber(wsql.BeginnerFromPgx(b.pool), cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := watermillsql.NewSubscriber(nil, watermillsql.SubscriberConfig{ConsumerGroup: "g"}); err == nil {
		t.Error("no database: taken")
	}
}
