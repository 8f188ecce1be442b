package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
)

// broker is a server with a stream for entries and one for dead letters.
func broker(t *testing.T) (*natscluster.Cluster, nats.JetStreamContext) {
	t.Helper()
	c := natscluster.Start(t, 1)
	_, js := c.Connect()
	for name, subject := range map[string]string{"IN": "in.>", "DEAD": "in_dead"} {
		testkit.Must(js.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{subject}, Duplicates: 100 * time.Millisecond}))(t)
	}
	return c, js
}

func (n *installation) stream(c *natscluster.Cluster, parameters string) ingest.Source {
	n.t.Helper()
	return testkit.Must(ingest.OpenStream(ingest.StreamConfig{
		Target: testkit.Must(relay.ParseTarget(c.URL() + parameters))(n.t), Name: "test", Pool: n.pool,
		Broker: relay.BrokerConfig{Name: "test", Logger: n.logged.Logger()},
	}))(n.t)
}

func TestStreamIsAppendedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	n := install(t)
	c, js := broker(t)
	_, stop := n.start(n.stream(c, "?stream=IN&subject=in"), n.metrics)
	n.start(n.stream(c, "?stream=IN&subject=in"), nil) // another process, which takes over
	want := map[string][]string{}
	for i := range 2000 {
		w, id := fmt.Sprintf("w%d", i%7), fmt.Sprintf("e%d", i)
		want[w] = append(want[w], id)
		for range 1 + i%2 { // every second one twice
			testkit.Must(js.Publish("in."+w, []byte(line(w, id))))(t)
		}
		switch i {
		case 700:
			stop()
		case 1200:
			c.Kill(0)
			c.Run(0)
			testkit.Eventually(t, func() error { _, err := js.StreamInfo("IN"); return err })
		}
	}
	for w, ids := range want {
		n.eventuallyHolds(w, ids)
	}
}

func TestPoisonOfAStreamBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	n := install(t)
	c, js := broker(t)
	i, _ := n.start(crashing{n.stream(c, "?stream=IN&subject=in"), new(int)}, nil)
	for _, payload := range []string{line("w", "a"), `{}`, line("w", "b"), `not JSON`} {
		testkit.Must(js.Publish("in.w", []byte(payload)))(t)
	}
	two := nats.NewMsg("in.w")
	two.Header.Add("x", "1")
	two.Header.Add("x", "2")
	two.Data = []byte(line("w", "z"))
	testkit.Must(js.PublishMsg(two))(t)
	testkit.Must(js.Publish("in.w", []byte(line("w", "c")), nats.MsgId("m")))(t)
	n.eventuallyHolds("w", []string{"a", "b", "c"})
	testkit.Eventually(t, func() error { return i.Probe(t.Context()) })
	sub := testkit.Must(js.SubscribeSync("in_dead"))(t)
	for _, want := range []string{"is missing", "want an entry", "the message cannot be read"} {
		msg := testkit.Must(sub.NextMsg(30 * time.Second))(t)
		if reason := msg.Header.Get(ingest.MetadataReason); !strings.Contains(reason, want) {
			t.Errorf("the reason of %s is %q, want %q", msg.Data, reason, want)
		}
	}
}

func TestStreamThatWasMadeAgainIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	n := install(t)
	c, js := broker(t)
	n.start(n.stream(c, "?stream=IN&subject=in"), nil)
	for i := range 10 {
		testkit.Must(js.Publish("in.w", []byte(line("w", fmt.Sprint(i)))))(t)
	}
	n.eventuallyHolds("w", strings.Fields("0 1 2 3 4 5 6 7 8 9"))
	testkit.Must(0, js.DeleteStream("IN"))(t)
	testkit.Eventually(t, func() error { // the server may still be removing the files of the deleted one
		_, err := js.AddStream(&nats.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		return err
	})
	testkit.Must(js.Publish("in.w", []byte(line("w", "new"))))(t)
	n.eventuallyHolds("w", strings.Fields("0 1 2 3 4 5 6 7 8 9 new"))
}
