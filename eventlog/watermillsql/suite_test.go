package watermillsql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// anyMessage carries Watermill's own test messages, whose payload and metadata
// are anything, in entries of the catalogue.
type anyMessage struct{ watermillsql.Schema }

func (a anyMessage) InsertQuery(params wsql.InsertQueryParams) (wsql.Query, error) {
	entries := make(message.Messages, len(params.Msgs))
	for i, m := range params.Msgs {
		content, err := json.Marshal([]any{m.Payload, m.Metadata})
		if err != nil {
			return wsql.Query{}, err
		}
		data, err := json.Marshal(map[string]string{"client_id": "c", "name": string(content)})
		if err != nil {
			return wsql.Query{}, err
		}
		entries[i] = message.NewMessage(m.UUID, data)
		entries[i].Metadata.Set(watermillsql.MetadataType, "client.recorded")
	}
	params.Msgs = entries
	return a.Schema.InsertQuery(params)
}

func (a anyMessage) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	row, err := a.Schema.UnmarshalMessage(params)
	if err != nil {
		return row, err
	}
	var data struct{ Name string }
	if err := json.Unmarshal(row.Msg.Payload, &data); err != nil {
		return row, err
	}
	if err := json.Unmarshal([]byte(data.Name), &[]any{&row.Msg.Payload, &row.Msg.Metadata}); err != nil {
		return row, fmt.Errorf("%s: %w", data.Name, err)
	}
	return row, nil
}

// TestWatermillSuite is Watermill's own conformance suite over the adapters.
//
// ExactlyOnceDelivery is not claimed: every entry is given at least once,
// because a nack or a lost connection redelivers a batch. ContextPreserved is for brokers inside a
// process. TestReconnect restarts the broker, which other tests share; TestSubscriberSurvivesKilledConnections ends the
// connections instead. The suite's sizes are its short ones (ForceShort), so
// that the whole package stays quick.
func TestWatermillSuite(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	features := tests.Features{
		ConsumerGroups:        true,
		GuaranteedOrder:       true,
		Persistent:            true,
		ForceShort:            true,
		RequireSingleInstance: false,
	}
	tests.TestPubSub(t, features,
		func(t *testing.T) (message.Publisher, message.Subscriber) { return s.pubSub(t, "test") },
		s.pubSub,
	)
}

// TestNewGroupReceivesOldMessages is the suite's test of that. Every subscriber is a
// group of its own for it.
func TestNewGroupReceivesOldMessages(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tests.TestNewSubscriberReceivesOldMessages(t,
		tests.TestContext{TestID: tests.NewTestID(), Features: tests.Features{NewSubscriberReceivesOldMessages: true, GuaranteedOrder: true, Persistent: true}},
		func(t *testing.T) (message.Publisher, message.Subscriber) { return s.pubSub(t, watermill.NewUUID()) },
	)
}

type suite struct {
	db    wsql.Beginner
	clock *testkit.Clock
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	b := setup(t)
	b.projecting(t)
	return &suite{db: wsql.BeginnerFromPgx(b.pool), clock: b.clock}
}

// pubSub composes the adapters as NewPublisher and NewSubscriber do, with the suite's
// messages around them.
func (s *suite) pubSub(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	schema := anyMessage{watermillsql.Schema{Clock: s.clock.Now, BatchSize: 10}}
	pub, err := wsql.NewPublisher(s.db, wsql.PublisherConfig{SchemaAdapter: schema}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := wsql.NewSubscriber(s.db, wsql.SubscriberConfig{
		ConsumerGroup: group, PollInterval: ms(5), ResendInterval: ms(5),
		SchemaAdapter: schema, OffsetsAdapter: watermillsql.Offsets{},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub, &closing{Subscriber: sub, stop: make(chan struct{})}
}

// closing is a subscriber whose channels are closed when Close returns, as the suite
// expects. Close of watermill-sql's returns a moment before that.
type closing struct {
	*wsql.Subscriber
	stop  chan struct{}
	once  sync.Once
	group sync.WaitGroup
}

// Subscribe forwards the messages of the subscriber.
func (c *closing) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := c.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	c.group.Go(func() {
		defer close(out)
		for m := range in {
			select {
			case out <- m:
			case <-c.stop:
			case <-ctx.Done():
			}
		}
	})
	return out, nil
}

// Close closes the subscriber, and then the channels.
func (c *closing) Close() error {
	c.once.Do(func() { close(c.stop) })
	err := c.Subscriber.Close()
	c.group.Wait()
	return err
}
