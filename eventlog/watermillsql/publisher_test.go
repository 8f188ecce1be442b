package watermillsql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// msg is the message of a draft.
func msg(d domain.Draft) *message.Message {
	m := message.NewMessage(d.ID, message.Payload(d.Data))
	m.Metadata.Set(watermillsql.MetadataType, d.Type)
	if !d.CreatedAt.IsZero() {
		m.Metadata.Set(watermillsql.MetadataCreatedAt, d.CreatedAt.Format(time.RFC3339Nano))
	}
	return m
}

func (b *bundle) publisher(t *testing.T, db wsql.ContextExecutor) *watermillsql.Publisher {
	t.Helper()
	p, err := watermillsql.NewPublisher(db, b.clock.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestPublishIsAppend: published entries are in the log byte for byte as appended
// ones.
func TestPublishIsAppend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := noon.AddDate(-1, 0, 0)
	drafts := []domain.Draft{
		at(sent(t, "w", "a", "i"), old), client(t, "w", "b", `quotes " \ 'and' é 😀`), client(t, "w", "c", "n"), sent(t, "w", "d", "j"),
	}
	b.append(t, drafts...)
	var messages []*message.Message
	for _, d := range drafts {
		messages = append(messages, msg(d))
	}
	loose := messages[1]
	loose.Payload = message.Payload(" { \"name\" : " + strings.TrimPrefix(string(loose.Payload), `{"client_id":"c","name":`))
	loose.Payload = append(loose.Payload[:len(loose.Payload)-1], []byte(`, "client_id":"\u0063" }`)...)
	loose.Metadata.Set("correlation_id", "not stored")
	p := b.publisher(t, wsql.BeginnerFromPgx(b.pool))
	if err := p.Publish("v", messages...); err != nil {
		t.Fatal(err)
	}
	want, got := b.entries(t, "w"), b.entries(t, "v")
	for i := range want {
		want[i].WorkspaceID, want[i].Salt = got[i].WorkspaceID, got[i].Salt
		if p, a := got[i].AppendNDJSON(nil), want[i].AppendNDJSON(nil); !bytes.Equal(p, a) {
			t.Errorf("published %s, appended %s", p, a)
		}
	}
	if err := p.Publish("v", messages...); err != nil {
		t.Errorf("publishing again: %v", err)
	}
	if n := len(b.entries(t, "v")); n != len(drafts) {
		t.Errorf("%d entries after publishing twice", n)
	}
}

func TestPublishWithoutUUIDGetsAnID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t, wsql.BeginnerFromPgx(b.pool))
	if err := p.Publish("w", msg(client(t, "w", "", "n")), msg(client(t, "w", "", "n"))); err != nil {
		t.Fatal(err)
	}
	for _, id := range b.ids(t, "w") {
		if !strings.HasPrefix(id, "evt_") {
			t.Errorf("id %s", id)
		}
	}
	twice := msg(client(t, "w", "twice", "n"))
	if err := p.Publish("w", twice, twice); err != nil {
		t.Errorf("a message twice in one call: %v", err)
	}
	if n := len(b.entries(t, "w")); n != 3 {
		t.Errorf("%d entries", n)
	}
	if err := p.Publish("nobody"); err != nil {
		t.Errorf("publishing nothing: %v", err)
	}
	if workspaces, err := b.workspaces().IDs(t.Context()); err != nil || !slices.Equal(workspaces, []string{"w"}) {
		t.Errorf("workspaces %v, %v", workspaces, err)
	}
}

// TestRefusedPublishFailsTheTransaction: a producer cannot commit its rows
// without the entries.
func TestRefusedPublishFailsTheTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `CREATE TABLE job (id text PRIMARY KEY)`)
	b.append(t, client(t, "w", "taken", "n"))
	nowMS := noon.Truncate(time.Millisecond)
	for name, c := range map[string]struct {
		bad    domain.Draft
		reason error
		detail string
	}{
		"other content": {client(t, "w", "taken", "m"), eventlog.ErrOtherContent, ""},
		"before newest": {at(client(t, "w", "bad", "n"), nowMS.Add(-ms(1))), eventlog.ErrBeforeNewest, domain.FormatTime(nowMS)},
		"ahead":         {at(client(t, "w", "bad", "n"), nowMS.Add(time.Hour)), eventlog.ErrAhead, domain.FormatTime(nowMS)},
	} {
		tx := b.begin(t)
		if _, err := tx.Exec(t.Context(), `INSERT INTO job VALUES ('j')`); err != nil {
			t.Fatal(err)
		}
		good := msg(client(t, "w", "good", "n"))
		err := b.publisher(t, wsql.TxFromPgx(tx)).Publish("w", good, good, msg(c.bad))
		if detail := refusal(t, err, 2, c.bad.ID, c.reason); !strings.Contains(detail, c.detail) {
			t.Errorf("%s: detail %q", name, detail)
		}
		if err := tx.Commit(t.Context()); err == nil {
			t.Errorf("%s: the producer's transaction was committed", name)
		}
	}
	var jobs int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job`).Scan(&jobs); err != nil || jobs != 0 {
		t.Errorf("%d jobs, error %v", jobs, err)
	}
	if ids := b.ids(t, "w"); !slices.Equal(ids, []string{"taken"}) {
		t.Errorf("the log holds %v", ids)
	}
	// On a pool the statement is the whole transaction, a new workspace included.
	err := b.publisher(t, wsql.BeginnerFromPgx(b.pool)).Publish("new", msg(at(client(t, "new", "bad", "n"), nowMS.Add(time.Hour))))
	refusal(t, err, 0, "bad", eventlog.ErrAhead)
	var unknown *domain.UnknownWorkspaceError
	if _, err := b.log.Head(t.Context(), "new"); !errors.As(err, &unknown) {
		t.Errorf("the refused workspace: %v", err)
	}
}

// TestPublishRefusesWhatIsNoEntry, before the database is asked.
func TestPublishRefusesWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t, wsql.BeginnerFromPgx(b.pool))
	good := client(t, "w", "a", "n")
	for name, c := range map[string]struct {
		change func(*message.Message)
		want   string
	}{
		"no type":      {func(m *message.Message) { delete(m.Metadata, watermillsql.MetadataType) }, "type"},
		"unknown type": {func(m *message.Message) { m.Metadata.Set(watermillsql.MetadataType, "invoice.lost") }, "type is not known"},
		"no JSON":      {func(m *message.Message) { m.Payload = message.Payload("{") }, `message "a"`},
		"no payload":   {func(m *message.Message) { m.Payload = nil }, "data has the wrong form"},
		"wrong field":  {func(m *message.Message) { m.Payload = message.Payload(`{"client_id":"c"}`) }, "data.name is missing"},
		"wrong UUID":   {func(m *message.Message) { m.UUID = "not an id" }, "UUID"},
		"wrong time":   {func(m *message.Message) { m.Metadata.Set(watermillsql.MetadataCreatedAt, "yesterday") }, "created_at has the wrong form"},
		"empty time":   {func(m *message.Message) { m.Metadata.Set(watermillsql.MetadataCreatedAt, "") }, "created_at has the wrong form"},
		"zero time":    {func(m *message.Message) { m.Metadata.Set(watermillsql.MetadataCreatedAt, "0001-01-01T00:00:00Z") }, "created_at has the wrong form"},
	} {
		m := msg(good)
		c.change(m)
		err := p.Publish("w", m)
		var draftErr *domain.DraftError
		if !errors.As(err, &draftErr) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a DraftError with %q", name, err, c.want)
		}
	}
	if err := p.Publish("a.b", msg(good)); err == nil || !strings.Contains(err.Error(), "workspace_id") {
		t.Errorf("a topic that is no workspace: %v", err)
	}
	if len(b.ids(t, "w")) != 0 {
		t.Error("something was appended")
	}
}

// TestPublishThroughDatabaseSQL: producers can use database/sql, too.
func TestPublishThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := stdlib.OpenDB(*pg.ConfigOf(b.pool))
	t.Cleanup(func() { _ = db.Close() })
	for _, end := range []string{"rollback", "commit"} {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p := b.publisher(t, wsql.TxFromStdSQL(tx))
		if err := p.Publish("w", msg(sent(t, "w", end, "i")), msg(at(client(t, "w", end+"2", "n"), noon))); err != nil {
			t.Fatal(err)
		}
		if end == "rollback" {
			err = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if ids := b.ids(t, "w"); !slices.Equal(ids, []string{"commit", "commit2"}) {
		t.Errorf("the log holds %v", ids)
	}
	b.entries(t, "w")
	err := b.publisher(t, wsql.BeginnerFromStdSQL(db)).Publish("w", msg(client(t, "w", "commit", "n")))
	refusal(t, err, 0, "commit", eventlog.ErrOtherContent)
}

// TestPublishNotifies: subscribers are notified at the commit and not before.
func TestPublishNotifies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notifier := eventlog.NewNotifier(b.pool, testkit.Discard())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- notifier.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	sub, done := notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	<-sub.C // the notifier listens
	sub.Take()
	tx := b.begin(t)
	if err := b.publisher(t, wsql.TxFromPgx(tx)).Publish("w", msg(client(t, "w", "a", "n"))); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sub.C:
		t.Error("notified before the commit")
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-sub.C
	if ids, _ := sub.Take(); !slices.Equal(ids, []string{"w"}) {
		t.Errorf("notified of %v", ids)
	}
}

func TestPublisherNeedsItsParts(t *testing.T) {
	t.Parallel()
	if _, err := watermillsql.NewPublisher(nil, testkit.NewClock(noon).Now, nil); err == nil {
		t.Error("a publisher without a database")
	}
	if _, err := watermillsql.NewPublisher(wsql.TxFromPgx(nil), nil, nil); err == nil {
		t.Error("a publisher without a clock")
	}
	if _, err := (watermillsql.Schema{}).InsertQuery(wsql.InsertQueryParams{Topic: "w"}); err == nil {
		t.Error("a schema without a clock publishes")
	}
}
