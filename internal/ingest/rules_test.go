package ingest_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestRulesOfASource(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct {
		rules ingest.Rules
		rest  string
	}{
		"nats://a:1,b:2/":                                        {ingest.Rules{Name: "ingest"}, "nats://a:1,b:2/"},
		"nats://a:1,b:2/?trust=relay":                            {ingest.Rules{Relay: true, Name: "ingest"}, "nats://a:1,b:2/"},
		"nats://a/?stream=S&workspace=acme&subject=s":            {ingest.Rules{Workspace: "acme", Name: "ingest"}, "nats://a/?stream=S&subject=s"},
		"nats://a?workspace_token=2&trust=relay":                 {ingest.Rules{Relay: true, Token: 2, Name: "ingest"}, "nats://a"},
		"postgres://u:p%40@h/d?workspace=acme&topic=x&name=shop": {ingest.Rules{Workspace: "acme", Name: "shop"}, "postgres://u:p%40@h/d?topic=x"},
		"postgres://u:p@h/d?options=-c%20a%3Db&sslmode=no":       {ingest.Rules{Name: "ingest"}, "postgres://u:p@h/d?options=-c%20a%3Db&sslmode=no"},
	} {
		if rules, rest, err := ingest.CutRules(address); err != nil || rules != want.rules || rest != want.rest {
			t.Errorf("%s: %+v %s %v", address, rules, rest, err)
		}
	}
	for _, query := range []string{
		"name=", "name=a.b", "trust=", "trust=all", "trust=relay&trust=relay", "workspace=", "workspace=a.b", "workspace=*", "workspace=a&workspace=b",
		"workspace_token=", "workspace_token=0", "workspace_token=-1", "workspace_token=17", "workspace_token=x", "workspace=a&workspace_token=1",
	} {
		if rules, _, err := ingest.CutRules("nats://u:hunter2@a/?" + query); err == nil || rules != (ingest.Rules{}) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v %v", query, rules, err)
		}
	}
}

// forged is an entry as a relay would send it, at a place of its publisher's choice.
func forged(t *testing.T, workspaceID, id string, position int64, at time.Time) (payload string, metadata map[string]string) {
	t.Helper()
	d := testkit.Must(domain.DecodeDraft([]byte(line(workspaceID, id))))(t)
	e := domain.Entry{WorkspaceID: workspaceID, Position: position, ID: id, Type: d.Type, CreatedAt: at, Data: d.Data}
	chain := e.ChainAfter(domain.Genesis(workspaceID))
	return strings.TrimSpace(string(e.AppendNDJSON(nil))), map[string]string{relay.MetadataPosition: fmt.Sprint(position), relay.MetadataChain: hex.EncodeToString(chain[:])}
}

var farAhead = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)

// TestPositionsOfAnUntrustedSource: what a relay says of an entry is no word of a producer's,
// whatever else the message has.
func TestPositionsOfAnUntrustedSource(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	payload, both := forged(t, "w", "future", 1, farAhead)
	want := map[string]string{}
	add := func(id, payload string, metadata map[string]string) {
		m := msg(id, payload)
		m.Metadata = metadata
		p.publish(true, m)
		want[id] = "this source is not trusted"
	}
	add("both", payload, both)
	for name, value := range both {
		add("only-"+name, line("w", name), map[string]string{name: value})
	}
	add("empty", line("w", "empty"), map[string]string{relay.MetadataPosition: "", relay.MetadataChain: ""})
	p.publish(true, msg("good", line("w", "good")))
	n.start(p.source(), nil)
	n.eventuallyHolds("w", []string{"good"})
	testkit.Eventually(t, func() error { return p.deadAre(want) })
}

// TestPositionsOfATrustedSource: an outbox can be a relay, too.
func TestPositionsOfATrustedSource(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.rules.Relay = true
	payload, both := forged(t, "w", "future", 1, farAhead)
	whole, half := msg("whole", payload), msg("half", line("w", "half"))
	whole.Metadata = both
	half.Metadata = map[string]string{relay.MetadataPosition: "2"}
	p.publish(true, whole, half)
	n.start(p.source(), nil)
	n.eventuallyHolds("w", []string{"future"})
	testkit.Eventually(t, func() error { return p.deadAre(map[string]string{"half": "and not both"}) })
}

// TestWorkspacesThatDoNotExist: a producer's message makes none, and a relay's does.
func TestWorkspacesThatDoNotExist(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.refuses, n.rules.Relay = true, true
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	payload, both := forged(t, "region", "r", 1, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	whole := msg("whole", payload)
	whole.Metadata = both
	p.publish(true, msg("m1", line("acne", "a")), msg("m2", line("acme", "b")), whole, msg("m3", line("acne", "c")))
	n.start(p.source(), nil)
	n.eventuallyHolds("acme", []string{"b"})
	n.eventuallyHolds("region", []string{"r"})
	reason := "there is no workspace acne: make it with ledgerfeed workspace create"
	testkit.Eventually(t, func() error { return p.deadAre(map[string]string{"m1": reason, "m3": reason}) })
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('acne', 'Acne', now())`))(t)
	p.publish(true, msg("m4", line("acne", "d")))
	n.eventuallyHolds("acne", []string{"d"})
}

func TestSourceOfOneWorkspace(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.rules.Workspace = "acme"
	p.publish(true, msg("m1", line("acme", "a")), msg("m2", line("beta", "b")), msg("m3", line("Acme", "c")), msg("m4", line("acme", "d")))
	n.start(p.source(), nil)
	n.eventuallyHolds("acme", []string{"a", "d"})
	reason := " and this source is bound to acme"
	testkit.Eventually(t, func() error {
		return p.deadAre(map[string]string{"m2": "the workspace beta," + reason, "m3": "the workspace Acme," + reason})
	})
	n.eventuallyHolds("beta", nil)
}

// TestSubjectsOfWorkspaces: a publisher of one subject appends to its workspace alone.
func TestSubjectsOfWorkspaces(t *testing.T) {
	t.Parallel()
	n := install(t)
	n.rules.Token = 2
	c, js := broker(t)
	n.start(n.stream(c, "?stream=IN&subject=in"), nil)
	for _, m := range [][2]string{
		{"in.shop.acme", line("acme", "a")}, {"in.shop.acme", line("beta", "b")}, {"in.acme", line("acme", "c")}, {"in.acme.shop", line("acme", "d")}, {"in.x.acme.invoice.sent", line("acme", "e")},
		{"in.shop.beta", line("beta", "f")},
	} {
		testkit.Must(js.Publish(m[0], []byte(m[1])))(t)
	}
	n.eventuallyHolds("acme", []string{"a", "e"})
	n.eventuallyHolds("beta", []string{"f"})
	sub := testkit.Must(js.SubscribeSync("in_dead"))(t)
	for _, want := range [][2]string{
		{"in.shop.acme", "the workspace beta, and the subject in.shop.acme is bound to acme"}, {"in.acme", "the subject in.acme has no token 2"}, {"in.acme.shop", "is bound to shop"},
	} {
		h := testkit.Must(sub.NextMsg(time.Minute))(t).Header
		if h.Get(ingest.MetadataSubject) != want[0] || !strings.Contains(h.Get(ingest.MetadataReason), want[1]) {
			t.Errorf("%v, want %q", h, want)
		}
	}
}

// TestLettersObeyNobody publishes what is no entry with each header that a broker obeys. The
// letters have them inside one of ours, and the messages behind are appended.
func TestLettersObeyNobody(t *testing.T) {
	t.Parallel()
	n := install(t)
	c, js := broker(t)
	testkit.Must(js.UpdateStream(&nats.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, AllowRollup: true}))(t)
	testkit.Must(js.UpdateStream(&nats.StreamConfig{Name: "DEAD", Subjects: []string{"in_dead"}, AllowRollup: true}))(t)
	n.start(n.stream(c, "?stream=IN&subject=in"), nil)
	sub := testkit.Must(js.SubscribeSync("in_dead", nats.OrderedConsumer()))(t)
	taken := 0
	for _, header := range []nats.Header{
		{"x": {"1", "2"}},
		{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"nats-rollup": {"sub"}}, {"Nats-Marker-Reason": {"MaxAge"}}, {"Status": {"503"}},
		{"Nats-TTL": {"1s"}}, {"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"in.w"}}, {"Nats-Incr": {"+1"}}, {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}},
		{ingest.MetadataReason: {"forged"}, ingest.MetadataHeaders: {"forged"}},
	} {
		m := nats.NewMsg("in.w")
		m.Header, m.Data = header, []byte("this is no entry")
		if _, err := js.PublishMsg(m); err != nil {
			continue // a later server's header
		}
		taken++
		letter, err := sub.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("%v has no letter: %v; logged:\n%s", header, err, n.logged)
		}
		if want := string(testkit.Must(json.Marshal(header))(t)); letter.Header.Get(ingest.MetadataHeaders) != want {
			t.Errorf("the headers are %s, want %s", letter.Header.Get(ingest.MetadataHeaders), want)
		}
		for name, values := range letter.Header {
			switch name {
			case ingest.MetadataReason, ingest.MetadataHeaders, ingest.MetadataSubject, "stream_sequence", "_watermill_message_uuid", nats.MsgIdHdr:
				if len(values) != 1 || values[0] == "forged" {
					t.Errorf("%s is %q", name, values)
				}
			default:
				t.Errorf("%s is passed on", name)
			}
		}
	}
	if info := testkit.Must(js.StreamInfo("DEAD"))(t); taken < 6 || info.State.Msgs != uint64(taken) {
		t.Errorf("%d letters of %d messages are left", info.State.Msgs, taken)
	}
	testkit.Must(js.Publish("in.w", []byte(line("w", "behind"))))(t)
	n.eventuallyHolds("w", []string{"behind"})
}

// TestLettersThatAreTooLarge: what a message has and its letter cannot carry holds nothing up.
func TestLettersThatAreTooLarge(t *testing.T) {
	t.Parallel()
	n := install(t)
	c, js := broker(t)
	conn, _ := c.Connect()
	large := int(conn.MaxPayload())
	n.start(n.stream(c, "?stream=IN&subject=in"), nil)
	sub := testkit.Must(js.SubscribeSync("in_dead", nats.OrderedConsumer()))(t)
	leavesOut := func(want string, header nats.Header, size int) {
		t.Helper()
		m := nats.NewMsg("in.w")
		m.Header, m.Data = header, bytes.Repeat([]byte("x"), size)
		testkit.Must(js.PublishMsg(m))(t)
		h := testkit.Must(sub.NextMsg(time.Minute))(t).Header
		if h.Get(ingest.MetadataCut) != want || h.Get(ingest.MetadataReason) == "" || h.Get("stream_sequence") == "" {
			t.Errorf("%v, want that %q is left out", h, want)
		}
	}
	quotes := strings.Repeat(`"`, 40<<10) // as JSON twice as many bytes
	leavesOut("the payload (1048576 bytes) and the headers", nil, large)
	leavesOut("the headers (81930 bytes)", nats.Header{"a": {quotes}}, 1)
	leavesOut("the headers (81930 bytes)", nats.Header{"a": {quotes}}, large-50<<10)
	leavesOut("", nats.Header{nats.MsgIdHdr: {strings.Repeat("m", 1000)}}, 1)
	testkit.Must(js.UpdateStream(&nats.StreamConfig{Name: "DEAD", Subjects: []string{"in_dead"}, MaxMsgSize: 2000}))(t)
	leavesOut("the payload (3000 bytes) and the headers", nats.Header{"a": {strings.Repeat("b", 1000)}}, 3000)
	testkit.Must(js.Publish("in.w", []byte(line("w", "behind"))))(t)
	n.eventuallyHolds("w", []string{"behind"})
}

// TestLettersOfAnOutbox have the metadata of their messages inside one of ours, also where it
// cannot be read, and where the producer's table takes longer ids than watermill-sql's.
func TestLettersOfAnOutbox(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	testkit.Must(p.pool.Exec(t.Context(), `ALTER TABLE watermill_ledgerfeed ALTER uuid TYPE text`))(t)
	long := strings.Repeat("u", 40)
	for id, metadata := range map[string]any{
		"plain": `{"ledgerfeed_reason": "forged", "a": "b"}`, "nested": `{"a": {"b": 1}}`, "null": `null`, "none": nil, "list": `[1]`, long: `{"long": "1"}`,
	} {
		testkit.Must(p.pool.Exec(t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES ($1, '{}', $2, pg_current_xact_id())`, id, metadata))(t)
	}
	p.publish(true, msg("m", line("w", "behind")))
	n.start(p.source(), nil)
	n.eventuallyHolds("w", []string{"behind"})
	want := map[string]string{"plain": `{"ledgerfeed_reason": "forged", "a": "b"}`, "nested": `{"a": {"b": 1}}`, "null": "null", "none": "", "list": "[1]", long: `{"long": "1"}`}
	testkit.Eventually(t, func() error {
		rows, err := p.pool.Query(t.Context(), `SELECT uuid, coalesce(metadata->>'ledgerfeed_headers', ''), metadata::text FROM watermill_ledgerfeed_dead`)
		if err != nil {
			return err
		}
		defer rows.Close()
		got := 0
		for rows.Next() {
			var id, headers, all string
			if err := rows.Scan(&id, &headers, &all); err != nil {
				return err
			}
			if len(id) == 36 {
				id = long
			}
			if headers != want[id] || strings.Contains(all, `"forged"`) && id != "plain" {
				t.Errorf("%s: %s", id, all)
			}
			got++
		}
		if got != len(want) {
			return errors.New("not all letters are there yet")
		}
		return rows.Err()
	})
}
