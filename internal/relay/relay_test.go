package relay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestPublicFormIsSentInOrderWithoutInternalEntries(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	var workspaces []string
	for i := range 30 {
		workspaces = append(workspaces, fmt.Sprintf("w%d", i))
		b.append(workspaces[i], 40*i+1)
	}
	b.start() // with a backlog
	for _, w := range workspaces {
		b.append(w, 7) // and while it runs
	}
	b.eventuallySent(relay.FormPublic, workspaces...)
	for w, list := range b.sent() {
		for _, msg := range list {
			if strings.Contains(string(msg.Data), "Secret") || strings.Contains(fmt.Sprint(msg.Header), "Secret") {
				t.Fatalf("a name was sent: %s", msg.Data)
			}
			if want := "ledgerfeed." + w + ".invoice.sent"; msg.Subject != want {
				t.Fatalf("subject %s, want %s", msg.Subject, want)
			}
		}
	}
}

func TestWholeEntriesAreSent(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	b.append("w", 2500)
	b.start(entries)
	b.eventuallySent(relay.FormEntries, "w")
	for i, msg := range b.sent()["w"] {
		e := testkit.Must(b.log.EntryAt(t.Context(), "w", int64(i)+1))(t)
		h := msg.Header
		got := []string{h.Get("position"), h.Get("chain"), h.Get("type"), h.Get(nats.MsgIdHdr), h.Get("content-type")}
		want := []string{fmt.Sprint(e.Position), fmt.Sprintf("%x", e.Chain), e.Type, "w/" + e.ID, "application/json"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("headers %v, want %v", got, want)
		}
	}
}

func TestNothingIsSentBeforeItIsVisible(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	b.start(entries)
	b.append("w", 10)
	b.eventuallySent(relay.FormEntries, "w")
	b.eventuallyAt("w")
	b.show("w", 0)
	testkit.Must(b.log.Append(t.Context(), testkit.Must(draft("w"))(t)))(t) // not visible yet
	for range 3 {                                                           // what comes later is sent, so it was looked for
		b.append("later", 1)
		b.eventuallyAt("later")
	}
	if n := len(b.sent()["w"]); n != 10 {
		t.Errorf("%d messages, of which 10 are visible", n)
	}
	b.show("w", 0)
	b.eventuallySent(relay.FormEntries, "w", "later")
}

func TestEntriesThatWereStoredAreSentAgainAndKeptOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	_, stop := b.start(entries)
	b.append("w", 100)
	b.eventuallySent(relay.FormEntries, "w")
	b.eventuallyAt("w")
	stop()
	// As if the process had been killed before its last commits.
	testkit.Must(b.pool.Exec(t.Context(), `UPDATE log_checkpoint SET position = 30 WHERE consumer = 'relay:test'`))(t)
	b.append("w", 10)
	b.start(entries)
	b.eventuallySent(relay.FormEntries, "w")
	b.eventuallyAt("w")
	b.eventuallySent(relay.FormEntries, "w")
}

func TestTwoProcessesShareTheWorkspaces(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	b.start(entries)
	_, stop := b.start(entries)
	var workspaces []string
	for i := range 100 {
		workspaces = append(workspaces, fmt.Sprintf("w%d", i))
		b.append(workspaces[i], 20)
		if i == 50 {
			stop()
		}
	}
	b.eventuallySent(relay.FormEntries, workspaces...)
}

func TestWorkspaceThatCannotBeSentHoldsNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.good1.>", "ledgerfeed.good2.>")
	r, _ := b.start(entries)
	b.append("bad", 10)
	b.append("good1", 10)
	b.eventuallySent(relay.FormEntries, "good1")
	testkit.Eventually(t, func() error {
		var failures int
		if err := b.pool.QueryRow(t.Context(), `SELECT failures FROM log_checkpoint WHERE consumer = 'relay:test' AND workspace_id = 'bad'`).Scan(&failures); err != nil {
			return err
		}
		if failures < 2 {
			return fmt.Errorf("%d failures recorded", failures)
		}
		return nil
	})
	for range 50 {
		b.append("good1", 1)
		b.append("good2", 1)
	}
	b.eventuallySent(relay.FormEntries, "good1", "good2")
	b.eventuallyAt("good1") // what was sent is noted after that
	b.eventuallyAt("good2")
	if err := r.Probe(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	status := testkit.Must(relay.ReadStatus(t.Context(), b.pool, ""))(t)
	if len(status) != 1 || status[0].Failing != 1 || status[0].LagEntries != 10 || len(status[0].Errors) != 1 || status[0].Errors[0].WorkspaceID != "bad" {
		t.Errorf("status %+v", status)
	}
	// The operator repairs it.
	testkit.Must(b.js.UpdateStream(&nats.StreamConfig{Name: "LEDGERFEED", Subjects: []string{"ledgerfeed.>"}, Duplicates: time.Minute}))(t)
	b.eventuallySent(relay.FormEntries, "bad", "good1", "good2")
}

func TestBrokerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	b.cluster.Kill(0)
	r, _ := b.start(entries, func(c *relay.Config) { c.Metrics = b.metrics })
	b.append("w", 10)
	unready := func() error {
		if text := fmt.Sprint(r.Probe(t.Context())); !strings.Contains(text, "the message broker cannot be used since") {
			return errors.New("readiness says: " + text)
		}
		return nil
	}
	if err := unready(); err != nil {
		t.Fatal(err)
	}
	b.cluster.Run(0)
	b.eventuallySent(relay.FormEntries, "w")
	if err := r.Probe(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	b.cluster.Kill(0)
	b.append("w", 10)
	testkit.Eventually(t, unready)
	if n := up(t, b); n != 0 {
		t.Errorf("the metric says %v", n)
	}
	var failures int
	if err := b.pool.QueryRow(t.Context(), `SELECT sum(failures) FROM log_checkpoint WHERE consumer = 'relay:test'`).Scan(&failures); err != nil || failures != 0 {
		t.Errorf("%d failures of workspaces were recorded, error %v", failures, err)
	}
	b.cluster.Run(0)
	b.eventuallySent(relay.FormEntries, "w")
	if n := up(t, b); n != 1 {
		t.Errorf("the metric says %v", n)
	}
	for _, want := range []string{"the message broker cannot be used; the relay waits for it", "the message broker can be used; the relay goes on"} {
		if !strings.Contains(b.logged.String(), want) {
			t.Errorf("not logged: %s", want)
		}
	}
}

func up(t *testing.T, b *bench) float64 {
	t.Helper()
	for _, family := range testkit.Must(b.metrics.Gather())(t) {
		if family.GetName() == "ledgerfeed_relay_broker_up" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no metric")
	return 0
}

func TestStreamIsMadeWhereTheAddressSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append("w", 3)
	r, stop := b.start(entries)
	testkit.Eventually(t, func() error {
		if text := fmt.Sprint(r.Probe(t.Context())); !strings.Contains(text, "there is no stream LEDGERFEED") {
			return errors.New("readiness says: " + text)
		}
		return nil
	})
	stop()
	b.start(entries, b.at("?replicas=1"))
	testkit.Eventually(t, func() error {
		_, err := b.js.StreamInfo("LEDGERFEED")
		return err
	})
	b.eventuallySent(relay.FormEntries, "w")
}

// TestNodeOfAClusterIsKilled kills the leader of the stream, again and again, while
// entries are sent.
func TestNodeOfAClusterIsKilled(t *testing.T) {
	t.Parallel()
	b := setup(t, 3, "ledgerfeed.>")
	_, stop := b.start(entries)
	b.start(entries)
	workspaces := []string{"a", "b", "c", "d", "e"}
	for round := range 3 {
		for range 20 {
			for _, w := range workspaces {
				b.append(w, 10)
			}
		}
		leader := b.leader()
		b.cluster.Kill(leader)
		for _, w := range workspaces {
			b.append(w, 50)
		}
		if round == 1 {
			stop()
		}
		testkit.Eventually(t, func() error {
			if now := b.leader(); now == leader {
				return fmt.Errorf("the killed server %d is still the leader", now)
			}
			return nil
		})
		b.cluster.Run(leader)
	}
	b.eventuallySent(relay.FormEntries, workspaces...)
	for _, w := range workspaces {
		b.eventuallyAt(w)
	}
}

// leader is the number of the server that leads the stream.
func (b *bench) leader() (index int) {
	b.t.Helper()
	testkit.Eventually(b.t, func() error {
		info, err := b.js.StreamInfo("LEDGERFEED")
		if err != nil {
			return err
		}
		if info.Cluster == nil || info.Cluster.Leader == "" {
			return fmt.Errorf("no leader")
		}
		index = b.cluster.Index(info.Cluster.Leader)
		return nil
	})
	return index
}

// TestCloudEvents holds the envelope against the attributes that CloudEvents 1.0 requires,
// their types, and the names that it allows.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, "ledgerfeed.>")
	b.start(func(c *relay.Config) { c.Envelope = relay.EnvelopeCloudEvents })
	b.append("w", 10)
	want := b.stored("w", relay.FormPublic)
	testkit.Eventually(t, func() error {
		if n := len(b.sent()["w"]); n != len(want) {
			return fmt.Errorf("%d of %d messages", n, len(want))
		}
		return nil
	})
	unique := map[string]bool{}
	for i, msg := range b.sent()["w"] {
		var event map[string]json.RawMessage
		if err := json.Unmarshal(msg.Data, &event); err != nil {
			t.Fatal(err)
		}
		text := func(name string) (s string) {
			if err := json.Unmarshal(event[name], &s); err != nil || s == "" {
				t.Fatalf("%s of %s: %v", name, msg.Data, err)
			}
			return s
		}
		if text("specversion") != "1.0" || text("type") != "invoice.sent" || text("datacontenttype") != "application/json" {
			t.Errorf("event %s", msg.Data)
		}
		if u, err := url.Parse(text("source")); err != nil || u.String() != "https://api.example.com/w" {
			t.Errorf("source of %s", msg.Data)
		}
		if _, err := time.Parse(time.RFC3339, text("time")); err != nil {
			t.Error(err)
		}
		if unique[text("source")+text("id")] {
			t.Errorf("source and id twice: %s", msg.Data)
		}
		unique[text("source")+text("id")] = true
		for name := range event {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
				t.Errorf("the name %s is not allowed", name)
			}
		}
		if !bytes.Equal(event["data"], []byte(want[i])) {
			t.Errorf("data %s, want %s", event["data"], want[i])
		}
		if got := msg.Header.Get("content-type"); got != "application/cloudevents+json" {
			t.Errorf("content type %s", got)
		}
	}
}
