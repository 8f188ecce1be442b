package ingest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// retry retries all letters of a source, as the command does, until an error.
func (n *installation) retry(source ingest.Source) (r ingest.Retried, err error) {
	n.t.Helper()
	i := testkit.Must(ingest.New(ingest.Config{Source: source, Rules: n.rules, CreateWorkspaces: !n.refuses, Log: n.log, Logger: n.logged.Logger(), Clock: time.Now}))(n.t)
	newest := testkit.Must(source.Newest(n.t.Context()))(n.t)
	if newest == nil {
		return r, nil
	}
	err = ingest.Pages(n.t.Context(), source, newest.ID, func(page []ingest.Letter) error {
		for part := range slices.Chunk(page, cmp.Or(n.each, len(page))) {
			one, err := i.Retry(n.t.Context(), part, n.force)
			r.Appended, r.Skipped, r.Kept = r.Appended+one.Appended, r.Skipped+one.Skipped, append(r.Kept, one.Kept...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

// lettersAre checks the dead letters of a source, oldest first, by UUID and a part of the reason.
func lettersAre(t *testing.T, source ingest.Source, want ...[2]string) []ingest.Letter {
	t.Helper()
	got := testkit.Must(source.Letters(t.Context(), ingest.LetterID{}, 1000))(t)
	for i := range got {
		l := &got[i]
		if i < len(want) && (l.Message.UUID != want[i][0] || !strings.Contains(l.Reason, want[i][1])) {
			t.Errorf("letter %s is %s: %q, want %v", l.ID, l.Message.UUID, l.Reason, want[i])
		}
		if age := time.Until(l.At); age > time.Hour || age < -time.Hour {
			t.Errorf("letter %s is of %v", l.ID, l.At)
		}
		if id := testkit.Must(ingest.ParseLetterID(l.ID.String()))(t); id != l.ID {
			t.Errorf("%s is read as %s", l.ID, id)
		}
		if found, err := ingest.Find(t.Context(), source, []ingest.LetterID{l.ID, l.ID}); err != nil || len(found) != 1 || found[0].ID != l.ID {
			t.Errorf("letter %s is found as %+v, %v", l.ID, found, err)
		}
	}
	if waiting := testkit.Must(source.Waiting(t.Context()))(t); len(got) != len(want) || waiting != int64(len(want)) {
		t.Fatalf("%d letters, %d counted, want %d: %+v", len(got), waiting, len(want), got)
	}
	return got
}

// bury waits until so many messages of a source are dead letters.
func bury(t *testing.T, source ingest.Source, letters int64) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if n, err := source.Waiting(t.Context()); err != nil || n != letters {
			return fmt.Errorf("%d dead letters, want %d, %w", n, letters, err)
		}
		return nil
	})
}

// TestDeadLettersOfAnOutbox: what the log takes now is appended and gone, the rest stays with the
// reason of now, and the letters of another outbox are not touched.
func TestDeadLettersOfAnOutbox(t *testing.T) {
	t.Parallel()
	n, p, other := install(t), newProducer(t), newProducer(t)
	n.refuses = true
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	p.publish(true, msg("m1", line("shop", "a")), msg("m2", `{}`), msg("m3", line("acme", "b")), msg("m4", line("shop", "c")), msg("m5", line("else", "d")),
		msg("m6", strings.Replace(line("shop", "x"), `"id":"x",`, "", 1)))
	testkit.Must(p.pool.Exec(t.Context(), `INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES ('m7', $1, '{"a":{"b":1}}', pg_current_xact_id())`, line("acme", "z")))(t)
	other.publish(true, msg("o1", `[]`))
	source, neighbour := p.source(), other.source()
	t.Cleanup(source.Close)
	t.Cleanup(neighbour.Close)
	lettersAre(t, source) // before there is a table
	for _, of := range []*producer{p, other} {
		_, stop := n.start(of.source(), nil)
		bury(t, map[*producer]ingest.Source{p: source, other: neighbour}[of], map[*producer]int64{p: 6, other: 1}[of])
		stop()
	}
	n.eventuallyHolds("acme", []string{"b"})
	unknown := "there is no workspace "
	letters := lettersAre(t, source, [2]string{"m1", unknown + "shop"}, [2]string{"m2", "is missing"}, [2]string{"m4", unknown + "shop"}, [2]string{"m5", unknown + "else"}, [2]string{"m6", unknown + "shop"}, [2]string{"m7", "cannot be read"})
	if w, id := letters[0].Entry(); w != "shop" || id != "a" || string(letters[0].Message.Payload) != line("shop", "a") {
		t.Errorf("%+v", letters[0])
	}
	if w, id := letters[4].Entry(); w != "shop" || id != "" {
		t.Errorf("%s, %s", w, id)
	}
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('shop', 'Shop', now())`))(t)
	n.rules.Workspace = "shop"
	r := testkit.Must(n.retry(source))(t)
	if r.Appended != 3 || r.Skipped != 0 || len(r.Kept) != 3 {
		t.Errorf("%+v", r)
	}
	n.eventuallyHolds("shop", []string{"a", "c", "m6"})
	left := lettersAre(t, source, [2]string{"m2", "is missing"}, [2]string{"m5", "this source is bound to shop"}, [2]string{"m7", "cannot be read"})
	if left[1].ID != letters[3].ID || left[1].At != letters[3].At || !bytes.Equal(left[2].Message.Headers, letters[5].Message.Headers) {
		t.Errorf("%+v became %+v", letters, left)
	}
	lettersAre(t, neighbour, [2]string{"o1", "one JSON object"})
	if _, err := ingest.Find(t.Context(), source, []ingest.LetterID{left[0].ID, letters[0].ID}); err == nil || !strings.Contains(err.Error(), "watermill_ledgerfeed has no dead letter "+letters[0].ID.String()) {
		t.Error(err)
	}
	testkit.Must(0, source.Settle(t.Context(), []ingest.LetterID{left[0].ID, left[1].ID, left[2].ID}, nil))(t)
	lettersAre(t, source)
}

// TestOutdatedLetters: a letter whose object has a newer entry is not appended over it, unless that is
// forced. A letter whose entry the log has by now is gone.
func TestOutdatedLetters(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	n.refuses, n.each = true, 1 // what a retry has appended itself is not newer than its next letter
	source := p.source()
	t.Cleanup(source.Close)
	client := func(workspaceID, id, object, name string) string {
		return fmt.Sprintf(`{"workspace_id":%q,"id":%q,"type":"client.recorded","data":{"client_id":%q,"name":%q}}`, workspaceID, id, object, name)
	}
	p.publish(true, msg("m1", client("shop", "old", "cl_1", "Old")), msg("m2", client("shop", "other", "cl_2", "Other")), msg("m3", client("shop", "again", "cl_3", "Again")))
	p.publish(true, msg("m7", client("shop", "other2", "cl_2", "Other 2"))) // after m2, and so it may follow it
	_, stop := n.start(p.source(), nil)
	bury(t, source, 4)
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('shop', 'Shop', now())`))(t)
	p.publish(true, msg("m4", client("shop", "new", "cl_1", "New")), msg("m5", client("shop", "again", "cl_3", "Again")), msg("m6", client("shop", "newer", "cl_3", "Newer")))
	n.eventuallyHolds("shop", []string{"new", "again", "newer"})
	stop()
	r := testkit.Must(n.retry(source))(t)
	if r.Appended != 2 || r.Skipped != 1 || len(r.Kept) != 1 || !strings.HasPrefix(r.Kept[0].Reason, "client cl_1 has a newer entry, at position 1: ") {
		t.Errorf("%+v", r)
	}
	n.eventuallyHolds("shop", []string{"new", "again", "newer", "other", "other2"})
	lettersAre(t, source, [2]string{"m1", "there is no workspace shop"})
	n.force = true
	if r := testkit.Must(n.retry(source))(t); r.Appended != 1 || len(r.Kept) != 0 {
		t.Errorf("forced: %+v", r)
	}
	n.eventuallyHolds("shop", []string{"new", "again", "newer", "other", "other2", "old"})
}

// forgetful is a source whose process ends before it settles letters.
type forgetful struct{ ingest.Source }

var errEnded = errors.New("the process ends")

func (forgetful) Settle(context.Context, []ingest.LetterID, []ingest.Letter) error { return errEnded }

// TestRetryAfterACrash: a crash between the append and the deletion of a letter loses nothing, and
// appends nothing twice.
func TestRetryAfterACrash(t *testing.T) {
	t.Parallel()
	c, js := broker(t)
	for name, open := range map[string]func(n *installation) ingest.Source{
		"outbox": func(*installation) ingest.Source {
			p := newProducer(t)
			p.publish(true, msg("m1", line("shop", "a")), msg("m2", `{}`), msg("m3", line("shop", "b")))
			return p.source()
		},
		"stream": func(n *installation) ingest.Source {
			for _, payload := range []string{line("shop", "a"), `{}`, line("shop", "b")} {
				testkit.Must(js.Publish("in.shop", []byte(payload)))(t)
			}
			return n.stream(c, "?stream=IN&subject=in")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := install(t)
			n.refuses = true
			source := open(n)
			_, stop := n.start(keepsOpen{source}, nil)
			bury(t, source, 3)
			stop()
			t.Cleanup(source.Close)
			n.refuses = false
			if r, err := n.retry(forgetful{source}); !errors.Is(err, errEnded) || r.Appended != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			bury(t, source, 3)
			if r, err := n.retry(source); err != nil || r.Appended != 0 || r.Skipped != 2 || len(r.Kept) != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			bury(t, source, 1)
			n.eventuallyHolds("shop", []string{"a", "b"})
		})
	}
}

// keepsOpen is a source that a test goes on using when ingest has ended.
type keepsOpen struct{ ingest.Source }

func (keepsOpen) Close() {}

// TestDeadLettersOfAStream: as those of an outbox. The stream that has them may have others' messages.
func TestDeadLettersOfAStream(t *testing.T) {
	t.Parallel()
	n := install(t)
	n.refuses, n.rules.Token = true, 1
	c, js := broker(t)
	testkit.Must(js.UpdateStream(&nats.StreamConfig{Name: "DEAD", Subjects: []string{"in_dead", "other_dead"}, AllowRollup: true}))(t)
	source := n.stream(c, "?stream=IN&subject=in")
	t.Cleanup(source.Close)
	bury(t, source, 0)
	testkit.Must(js.Publish("other_dead", []byte("of another program")))(t)
	_, stop := n.start(keepsOpen{source}, nil)
	m := nats.NewMsg("in.shop")
	m.Header.Set("_watermill_message_uuid", "u1")
	m.Header.Set("Nats-Rollup", "all")
	m.Data = []byte(strings.Replace(line("shop", "x"), `"id":"x",`, "", 1))
	testkit.Must(js.UpdateStream(&nats.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, AllowRollup: true}))(t)
	testkit.Must(js.PublishMsg(m))(t)
	bury(t, source, 1)
	testkit.Must(js.Publish("in.shop", []byte(line("shop", "a")), nats.MsgId("i2")))(t)
	testkit.Must(js.Publish("in.shop", []byte(line("acme", "b")), nats.MsgId("i3")))(t)
	large := nats.NewMsg("in.shop")
	large.Header.Set("_watermill_message_uuid", "u4")
	large.Header.Set("large", strings.Repeat(`"`, 40<<10))
	large.Data = []byte(line("shop", "c"))
	testkit.Must(js.PublishMsg(large))(t)
	bury(t, source, 4)
	testkit.Must(js.Publish("other_dead", []byte("of another program")))(t)
	stop()
	unknown := "there is no workspace shop"
	letters := lettersAre(t, source, [2]string{"u1", unknown}, [2]string{"i2", unknown}, [2]string{"i3", "the subject in.shop is bound to shop"}, [2]string{"u4", unknown})
	if l := letters[1]; l.Message.Subject != "in.shop" || l.Sequence != "2" || l.ID.String() != "3" || l.Cut != "" || letters[3].Cut == "" {
		t.Errorf("%+v", letters)
	}
	testkit.Must(n.pool.Exec(t.Context(), `SELECT workspace_create('shop', 'Shop', now())`))(t)
	n.rules.Token, n.rules.Workspace = 0, "shop"
	r := testkit.Must(n.retry(source))(t)
	if r.Appended != 2 || len(r.Kept) != 2 {
		t.Errorf("%+v", r)
	}
	n.eventuallyHolds("shop", []string{"u1", "a"})
	left := lettersAre(t, source, [2]string{"u4", unknown}, [2]string{"i3", "this source is bound to shop"}) // the one with a new reason is behind now
	// A crash before the old letter is deleted leaves both of them.
	left[1].Reason = "a third reason"
	if err := source.Settle(t.Context(), []ingest.LetterID{{0, 1 << 40}}, left[1:]); err == nil {
		t.Error("a letter that there is not was deleted")
	}
	left = lettersAre(t, source, [2]string{"u4", unknown}, [2]string{"i3", "bound to shop"}, [2]string{"i3", "a third reason"})
	n.rules.Workspace, n.refuses = "", false
	if r := testkit.Must(n.retry(source))(t); r.Appended != 1 || r.Skipped != 1 || len(r.Kept) != 1 {
		t.Errorf("%+v", r)
	}
	n.eventuallyHolds("acme", []string{"b"})
	testkit.Must(0, source.Settle(t.Context(), []ingest.LetterID{left[0].ID}, nil))(t)
	lettersAre(t, source)
	if info := testkit.Must(js.StreamInfo("DEAD", &nats.StreamInfoRequest{SubjectsFilter: ">"}))(t); info.State.Subjects["other_dead"] != 2 {
		t.Errorf("%+v", info.State)
	}
	if info := testkit.Must(js.StreamInfo("IN"))(t); info.State.Msgs != 4 {
		t.Errorf("the source has %d messages", info.State.Msgs)
	}
}

// TestPagesOfDeadLetters: each letter comes once, a page has a bounded size, and those that come
// meanwhile are left.
func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	source := p.source()
	t.Cleanup(source.Close)
	p.publish(true, msg("m", `{}`))
	_, stop := n.start(keepsOpen{source}, nil)
	bury(t, source, 1)
	stop()
	add := func(letters, size int) {
		testkit.Must(p.pool.Exec(t.Context(), `INSERT INTO watermill_ledgerfeed_dead (uuid, payload, metadata, transaction_id)
			SELECT 'u', convert_to(repeat('x', $2), 'UTF8'), '{}', pg_current_xact_id() FROM generate_series(1, $1)`, letters, size))(t)
	}
	add(2300, 10)
	add(5, 3<<20)
	newest := testkit.Must(source.Newest(t.Context()))(t)
	var sizes []int
	seen := map[ingest.LetterID]bool{}
	testkit.Must(0, ingest.Pages(t.Context(), source, newest.ID, func(page []ingest.Letter) error {
		sizes = append(sizes, len(page))
		for i := range page {
			seen[page[i].ID] = true
		}
		if len(sizes) == 1 {
			add(10, 10)
		}
		return nil
	}))(t)
	if len(seen) != 2306 || !slices.Equal(sizes, []int{1000, 1000, 304, 2}) {
		t.Errorf("%d letters in pages of %v", len(seen), sizes)
	}
	if waiting := testkit.Must(source.Waiting(t.Context()))(t); waiting != ingest.MostWaiting {
		t.Errorf("%d are counted", waiting)
	}
}

// TestRightsOnDeadLetters: docs/operations/ingest.md says which rights there have to be. Without the
// right to count them, ingest goes on and says so.
func TestRightsOnDeadLetters(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	owner := p.source()
	t.Cleanup(owner.Close)
	p.publish(true, msg("m1", `{}`))
	_, stop := n.start(keepsOpen{owner}, nil)
	bury(t, owner, 1)
	stop()
	var database string
	testkit.Must(0, p.pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database))(t)
	role := "ingests_" + database
	grant := func(sql string) { testkit.Must(p.pool.Exec(t.Context(), strings.ReplaceAll(sql, "WHO", role)))(t) }
	grant(`CREATE ROLE WHO; GRANT SELECT ON watermill_ledgerfeed TO WHO; GRANT SELECT, INSERT, UPDATE ON watermill_offsets_ledgerfeed TO WHO;
		GRANT INSERT ON watermill_ledgerfeed_dead TO WHO; GRANT USAGE ON SEQUENCE watermill_ledgerfeed_dead_offset_seq TO WHO`)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY ", "DROP ROLE "} {
			testkit.Must(p.pool.Exec(context.Background(), sql+role))(t)
		}
	})
	asRole := *p
	asRole.url += "&role=" + role
	source := asRole.source()
	_, stop = n.start(source, n.metrics)
	p.publish(true, msg("m2", line("w", "a")), msg("m3", `{}`))
	n.eventuallyHolds("w", []string{"a"})
	bury(t, owner, 2)
	testkit.Eventually(t, func() error {
		if text := n.logged.String(); !strings.Contains(text, "cannot count dead letters") || !strings.Contains(text, "permission denied") {
			return errors.New(text)
		}
		return nil
	})
	grant(`GRANT SELECT, UPDATE, DELETE ON watermill_ledgerfeed_dead TO WHO`)
	testkit.Eventually(t, func() error {
		for _, m := range testkit.Must(n.metrics.Gather())(t) {
			if m.GetName() == "ledgerfeed_ingest_dead_letters" && m.GetMetric()[0].GetGauge().GetValue() == 2 && strings.HasSuffix(m.GetMetric()[0].GetLabel()[0].GetValue(), database+"/watermill_ledgerfeed") {
				return nil
			}
		}
		return errors.New("the metric does not say 2")
	})
	stop()
	source = asRole.source()
	t.Cleanup(source.Close)
	n.rules.Workspace = "other"
	letters := lettersAre(t, source, [2]string{"m1", "is missing"}, [2]string{"m3", "is missing"})
	letters[0].Reason = "another reason"
	testkit.Must(0, source.Settle(t.Context(), []ingest.LetterID{letters[1].ID}, letters[:1]))(t)
	lettersAre(t, source, [2]string{"m1", "another reason"})
}

// TestASourceThatIsAway: opening it does not fail, and what cannot be read is said without passwords.
func TestASourceThatIsAway(t *testing.T) {
	t.Parallel()
	stream := testkit.Must(ingest.OpenStream(ingest.StreamConfig{Target: testkit.Must(relay.ParseTarget("nats://u:hunter2@127.0.0.1:1/"))(t), Broker: relay.BrokerConfig{Name: "test", Logger: testkit.Discard()}}))(t)
	outbox := testkit.Must(ingest.OpenOutbox(t.Context(), testkit.Must(ingest.ParseTarget("postgres://u:hunter2@127.0.0.1:1/shop"))(t), testkit.Discard()))(t)
	another := testkit.Must(ingest.OpenOutbox(t.Context(), testkit.Must(ingest.ParseTarget("mysql://u:hunter2@127.0.0.1:1/crm"))(t), testkit.Discard()))(t)
	for want, source := range map[string]ingest.Source{"LEDGERFEED/ledgerfeed": stream, "127.0.0.1/shop/watermill_ledgerfeed": outbox, "127.0.0.1:1/crm/watermill_ledgerfeed": another} {
		t.Cleanup(source.Close)
		if _, err := source.Waiting(t.Context()); source.Name() != want || err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", source.Name(), err)
		} else if want := "127.0.0.1:1"; !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "which LEDGERFEED_INGEST_URL names: ") != 1 || !strings.Contains(err.Error(), "; check that ") {
			t.Errorf("%s does not say %s, its setting and what to do: %v", source.Name(), want, err)
		}
	}
}

func TestWrongIDsOfLetters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0", "a", "-1", "1-", "1-2-3", "-", "1-0"} {
		if id, err := ingest.ParseLetterID(text); err == nil {
			t.Errorf("%q is %s", text, id)
		}
	}
}

// TestDeadLettersNameTheField: the letter and the log name each unknown field with its place, and hold
// nothing of the values.
func TestDeadLettersNameTheField(t *testing.T) {
	t.Parallel()
	n, p := install(t), newProducer(t)
	p.publish(true,
		msg("m1", `{"workspace_id":"acme","id":"a","type":"client.recorded","data":{"client_id":"c","name":"Ada Lovelace","naem":"Ada","contacts":[{"email":"ada@example.com"},{"emai":"ada@example.com"}]}}`),
		msg("m2", `{"workspace_id":"acme","id":"b","typ":"Ada","type":"client.recorded","data":{"client_id":"c","name":"Ada Lovelace"}}`))
	source := p.source()
	t.Cleanup(source.Close)
	_, stop := n.start(p.source(), nil)
	bury(t, source, 2)
	stop()
	letters := lettersAre(t, source,
		[2]string{"m1", "data.naem is not known: want one of client_id, name"}, [2]string{"m2", "typ is not known: want one of workspace_id, id"})
	if !strings.Contains(letters[0].Reason, "data.contacts[1].emai is not known: want one of first_name") {
		t.Errorf("%+v", letters)
	}
	for i := range letters {
		if !strings.Contains(n.logged.String(), letters[i].Reason) || strings.Contains(strings.ToLower(letters[i].Reason), "ada") {
			t.Errorf("%s; logged:\n%s", letters[i].Reason, n.logged)
		}
	}
}
