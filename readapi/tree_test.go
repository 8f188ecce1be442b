package readapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// signingKeys are the same in all stands, so that two worlds with the same events have the
// same checkpoints.
func signingKeys(t testing.TB, n int) *signingkey.Keys {
	t.Helper()
	var texts []string
	for i := range n {
		texts = append(texts, testkit.Must(signingkey.New(bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, 64))))(t))
	}
	return testkit.Must(signingkey.Parse(strings.Join(texts, ",")))(t)
}

// buildTrees builds the trees of workspaces up to what is visible.
func (s *stand) buildTrees(workspaceIDs ...string) {
	s.t.Helper()
	builder := testkit.Must(eventtree.NewBuilder(eventtree.BuilderConfig{
		Pool: s.pool, Notifier: s.notifier, Clock: time.Now, Logger: testkit.Discard(), Gather: time.Millisecond, Sweep: 10 * time.Millisecond,
	}))(s.t)
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- builder.Run(ctx) }()
	s.until(func() bool {
		states, err := eventtree.ReadStates(ctx, s.pool, workspaceIDs)
		for _, id := range workspaceIDs {
			var visible int64
			if err == nil {
				err = s.pool.QueryRow(ctx, `SELECT position FROM log_checkpoint WHERE workspace_id = $1 AND consumer = 'read_models'`, id).Scan(&visible)
			}
			if err != nil || states[id].WithPay.Position != visible {
				return false
			}
		}
		return true
	})
	cancel()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

// checked is a checkpoint that was checked.
type checked struct {
	tlog.Tree

	origin   string
	position int64
	chain    []byte
	etag     string
	note     []byte
}

// checkpoint reads and checks a checkpoint.
func (s *stand) checkpoint(key, origin string, headers ...string) checked {
	s.t.Helper()
	r := s.get("/v1/events/checkpoint", key, headers...)
	if r.status != http.StatusOK {
		s.t.Fatalf("the checkpoint: %d %s", r.status, r.body)
	}
	c := testkit.Must(open(s.config.Signing, origin, r.body))(s.t)
	if got := r.header.Get("Log-Position"); got != strconv.FormatInt(c.position, 10) || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		s.t.Errorf("headers of the checkpoint at %d: %v", c.position, r.header)
	}
	c.etag = r.header.Get("ETag")
	return c
}

// open checks a note as a follower does.
func open(keys *signingkey.Keys, origin string, signed []byte) (c checked, err error) {
	var verifiers []note.Verifier
	list, err := keys.Verifiers(origin)
	if err != nil {
		return c, err
	}
	for _, text := range list {
		v, err := note.NewVerifier(text)
		if err != nil {
			return c, err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return c, err
	}
	for _, s := range n.Sigs {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return c, err // another text for the same bytes
		}
	}
	if len(n.Sigs) != len(list) {
		return c, fmt.Errorf("%d signatures of %d keys", len(n.Sigs), len(list))
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 6 || lines[0] != origin || lines[5] != "" {
		return c, fmt.Errorf("the checkpoint has other lines: %q", n.Text)
	}
	c.origin, c.note = lines[0], signed
	if c.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return c, err
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, fmt.Errorf("the root is %q", lines[2])
	}
	c.Hash = tlog.Hash(root)
	if _, err := fmt.Sscanf(lines[3], "position %d", &c.position); err != nil {
		return c, err
	}
	c.chain, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[4], "chain "))
	return c, err
}

// tiles reads tiles over HTTP for the package of the checksum database, which checks them.
type tiles struct {
	s   *stand
	key string

	change func(tlog.Tile, []byte) // nil: tiles are as they came
}

func (r *tiles) Height() int { return 8 }

func (r *tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range list {
		answer := r.s.get("/v1/events/"+strings.Replace(tile.Path(), "tile/8/", "tile/", 1), r.key)
		if answer.status != http.StatusOK {
			return nil, fmt.Errorf("%s: %d", tile.Path(), answer.status)
		}
		if r.change != nil {
			r.change(tile, answer.body)
		}
		data = append(data, answer.body)
	}
	return data, nil
}

func (r *tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// entries reads events from bundles.
func (s *stand) entries(key string, from, to int64) (events []string) {
	s.t.Helper()
	for n := from / 256; n*256 < to; n++ {
		path := fmt.Sprintf("/v1/events/tile/entries/%03d", n)
		if width := to - n*256; width < 256 {
			path += fmt.Sprintf(".p/%d", width)
		}
		r := s.get(path, key)
		if r.status != http.StatusOK {
			s.t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		for i, b := n*256, r.body; len(b) > 0; i++ {
			size := int(binary.BigEndian.Uint16(b))
			if i >= from {
				events = append(events, string(b[2:2+size]))
			}
			b = b[2+size:]
		}
	}
	return events
}

// manyEvents appends events, a third of them such as need pay:read, and makes them visible.
func (s *stand) manyEvents(workspaceID string, from, count int) {
	s.t.Helper()
	var lines []string
	for i := range count {
		typ := "invoice.reversed"
		if (from+i)%3 == 1 {
			typ = []string{domain.TypePayoutPaid, "charge.created", "charge.deleted"}[(from+i)/3%3]
		}
		lines = append(lines, strings.Replace(event(fmt.Sprintf("e%d", from+i), typ, s.clock.Now()), `"acme"`, strconv.Quote(workspaceID), 1))
	}
	for len(lines) > 0 {
		n := min(500, len(lines))
		s.append(lines[:n]...)
		lines = lines[n:]
	}
	s.project(workspaceID, 0)
}

// TestFeedProvesItself: with keys of both sights, inclusion of random events and
// consistency of random checkpoints hold, by the package of the checksum database.
func TestFeedProvesItself(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 2) })
	random := rand.New(rand.NewPCG(1, 1))
	s.workspace("acme")
	views := map[string]string{
		"api.example.com/acme/events":          s.key("acme", access.EventsRead),
		"api.example.com/acme/events-with-pay": s.key("acme", access.EventsRead, access.PayRead),
	}
	kept := map[string][]checked{}
	for origin, key := range views {
		c := s.checkpoint(key, origin)
		if want := testkit.Must(tlog.TreeHash(0, nil))(t); c.N != 0 || c.Hash != want || c.position != 0 {
			t.Errorf("the checkpoint of an empty feed: %+v", c)
		}
	}
	total := 0
	for _, count := range []int{1, 3, 700, 90, 6} {
		s.manyEvents("acme", total, count)
		total += count
		s.buildTrees("acme")
		for origin, key := range views {
			kept[origin] = append(kept[origin], s.checkpoint(key, origin))
		}
	}
	for origin, key := range views {
		list := kept[origin]
		newest := list[len(list)-1]
		want := total
		if strings.HasSuffix(origin, "/events") {
			want -= (total + 1) / 3
		}
		if newest.N != int64(want) || newest.position != int64(total) {
			t.Errorf("%s has %d events at position %d, want %d at %d", origin, newest.N, newest.position, want, total)
		}
		reader := tlog.TileHashReader(newest.Tree, &tiles{s: s, key: key})
		events := s.entries(key, 0, newest.N)
		for range 60 {
			n := random.Int64N(newest.N)
			proof := testkit.Must(tlog.ProveRecord(newest.N, n, reader))(t)
			if err := tlog.CheckRecord(proof, newest.N, newest.Hash, n, tlog.RecordHash([]byte(events[n]))); err != nil {
				t.Fatalf("%s: event %d: %v", origin, n, err)
			}
		}
		for _, older := range list {
			proof := testkit.Must(tlog.ProveTree(newest.N, older.N, reader))(t)
			if err := tlog.CheckTree(proof, newest.N, newest.Hash, older.N, older.Hash); err != nil {
				t.Errorf("%s: from %d to %d: %v", origin, older.N, newest.N, err)
			}
		}
		// The pages of the feed have the same bytes, and say where they are.
		seen := int64(0)
		for cursor := ""; ; {
			r := s.get("/v1/events?limit=100"+cursor, key)
			p := s.page("/v1/events?limit=100"+cursor, key)
			if len(p.Data) == 0 {
				break
			}
			if got := r.header.Get("Event-Index"); got != strconv.FormatInt(seen, 10) {
				t.Fatalf("%s: Event-Index %q, want %d", origin, got, seen)
			}
			for _, row := range p.Data {
				if string(row) != events[seen] {
					t.Fatalf("event %d is %s on the feed and %s in the tree", seen, row, events[seen])
				}
				seen++
			}
			cursor = "&cursor=" + *p.NextCursor
		}
		if seen != newest.N {
			t.Errorf("%s: the feed has %d events", origin, seen)
		}
		var chain []byte
		if err := s.pool.QueryRow(t.Context(), `SELECT chain FROM event_log WHERE workspace_id = 'acme' AND position = $1`, newest.position).Scan(&chain); err != nil || !bytes.Equal(chain, newest.chain) {
			t.Errorf("the chain is %x, want %x (%v)", newest.chain, chain, err)
		}
	}
	if r := s.get("/v1/events?type=invoice.reversed", views["api.example.com/acme/events"]); r.header.Get("Event-Index") != "" {
		t.Error("a page of one type tells an index")
	}
}

// TestIndexComesWithTheTree: a page whose index could not be told, because the tree was far behind,
// tells it when the tree is there, though nothing new was published.
func TestIndexComesWithTheTree(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	s.manyEvents("acme", 0, 3300)
	walker, key := s.key("acme", access.EventsRead, access.PayRead), s.key("acme", access.EventsRead)
	last := "/v1/events?limit=100"
	for range 32 {
		last = "/v1/events?limit=100&cursor=" + *s.page(last, walker).NextCursor
	}
	for range 2 { // what was asked for twice is cached
		if got := s.get(last, key).header.Get("Event-Index"); got != "" {
			t.Fatalf("Event-Index %s without a tree", got)
		}
	}
	s.buildTrees("acme")
	for range 2 {
		if got := s.get(last, key).header.Get("Event-Index"); got != "2133" {
			t.Errorf("Event-Index %q, want 2133", got)
		}
	}
	// Whoever has walked here knows the index without a tree, and of its own sight.
	if got := s.get(last, walker).header.Get("Event-Index"); got != "3200" {
		t.Errorf("Event-Index %q for who sees pay, want 3200", got)
	}
	// A time to come leaves out events that follow the same place for others.
	if p := s.page(last, walker); len(p.Data) != 100 {
		t.Fatalf("the last page has %d events", len(p.Data))
	}
	later := "/v1/events?limit=100&created_since=" + s.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	place := *s.page(later, walker).NextCursor
	s.manyEvents("acme", 3300, 10)
	s.clock.Advance(2 * time.Hour)
	s.manyEvents("acme", 3310, 10)
	if got := s.get(later+"&cursor="+place, walker).header.Get("Event-Index"); got != "3310" {
		t.Errorf("Event-Index %q of events since a time, want 3310", got)
	}
}

// TestEveryChangedBitIsFound changes one bit of a tile, a checkpoint or an event.
func TestEveryChangedBitIsFound(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	s.manyEvents("acme", 0, 600)
	s.buildTrees("acme")
	s.contract = nil
	const origin = "api.example.com/acme/events-with-pay"
	key := s.key("acme", access.EventsRead, access.PayRead)
	c := s.checkpoint(key, origin)
	events := s.entries(key, 0, c.N)
	files := map[string][]byte{}
	for _, tile := range tlog.NewTiles(8, 0, c.N) {
		files[tile.Path()] = testkit.Must((&tiles{s: s, key: key}).ReadTiles([]tlog.Tile{tile}))(t)[0]
	}
	random := rand.New(rand.NewPCG(7, 7))
	cases := 0
	for bit := range 8 * len(c.note) {
		changed := bytes.Clone(c.note)
		changed[bit/8] ^= 1 << (bit % 8)
		if got, err := open(s.config.Signing, origin, changed); err == nil {
			t.Fatalf("bit %d of the checkpoint may be another: %+v", bit, got)
		}
		cases++
	}
	for range 1500 {
		n := random.Int64N(c.N)
		reader := &cached{files: files}
		event := []byte(events[n])
		if random.IntN(2) == 0 {
			bit := random.IntN(8 * len(event))
			event[bit/8] ^= 1 << (bit % 8)
		} else {
			reader.changed, reader.bit = tlog.TileForIndex(8, tlog.StoredHashIndex(0, n)).N, random.IntN(8*tlog.HashSize)+8*tlog.HashSize*int(n%256)
		}
		proof, err := tlog.ProveRecord(c.N, n, tlog.TileHashReader(c.Tree, reader))
		if err == nil {
			err = tlog.CheckRecord(proof, c.N, c.Hash, n, tlog.RecordHash(event))
		}
		if err == nil {
			t.Fatalf("a changed bit for event %d is not found: %+v", n, reader)
		}
		cases++
	}
	for range 300 { // doubled, dropped or in another order
		i, j := random.IntN(len(events)), random.IntN(len(events))
		if i == j {
			continue
		}
		list := append([]string(nil), events...)
		switch random.IntN(3) {
		case 0:
			list[i], list[j] = list[j], list[i]
		case 1:
			list[i] = list[j]
		default:
			list = append(list[:i], list[i+1:]...)
		}
		var tree eventtree.Tree
		for _, e := range list {
			tree.Append(tlog.RecordHash([]byte(e)), func(eventtree.Tile) {})
		}
		if tree.Root() == c.Hash {
			t.Fatalf("another list of events has the same root: %d, %d", i, j)
		}
		cases++
	}
	if cases < 2000 {
		t.Errorf("only %d cases", cases)
	}
}

// cached reads tiles that were read before, of one with a bit changed.
type cached struct {
	files   map[string][]byte
	changed int64
	bit     int // below 0, or 0 of tile 0: none
}

func (r *cached) Height() int { return 8 }

func (r *cached) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range list {
		b := bytes.Clone(r.files[tile.Path()])
		if tile.L == 0 && tile.N == r.changed && r.bit/8 < len(b) && r.bit > 0 {
			b[r.bit/8] ^= 1 << (r.bit % 8)
		}
		data = append(data, b)
	}
	return data, nil
}

func (r *cached) SaveTiles([]tlog.Tile, [][]byte) {}

// TestTilesAreThoseOfTheKey: what is not there is a 404, tiles may be cached by the caller
// alone, and bundles end with the retention.
func TestTilesAreThoseOfTheKey(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	s.manyEvents("acme", 0, 300)
	s.buildTrees("acme")
	plain, paid := s.key("acme", access.EventsRead), s.key("acme", access.EventsRead, access.PayRead)
	for path, want := range map[string][2]int{
		"/v1/events/tile/0/000":                           {404, 200}, // 200 events, 300 with payouts
		"/v1/events/tile/0/000.p/200":                     {200, 200},
		"/v1/events/tile/0/000.p/201":                     {404, 200},
		"/v1/events/tile/0/001.p/44":                      {404, 200},
		"/v1/events/tile/0/001.p/45":                      {404, 404},
		"/v1/events/tile/1/000.p/1":                       {404, 200},
		"/v1/events/tile/1/000":                           {404, 404},
		"/v1/events/tile/63/000.p/1":                      {404, 404},
		"/v1/events/tile/64/000.p/1":                      {404, 404},
		"/v1/events/tile/0/x001/000":                      {404, 404},
		"/v1/events/tile/0/0":                             {404, 404},
		"/v1/events/tile/0/000.p/256":                     {404, 404},
		"/v1/events/tile/entries/000.p/200":               {200, 200},
		"/v1/events/tile/entries/000":                     {404, 200},
		"/v1/events/tile/entries/001.p/44":                {404, 200},
		"/v1/events/tile/entries/x999/x999/x999/x999/999": {404, 404},
		"/v1/events/tile":                                 {404, 404},
		"/v1/events/tile/0":                               {404, 404},
	} {
		for i, key := range []string{plain, paid} {
			r := s.get(path, key)
			if r.status != want[i] {
				t.Errorf("%s with key %d: %d, want %d: %.200s", path, i, r.status, want[i], r.body)
			}
			caching := r.header.Get("Cache-Control")
			if r.status == 200 && strings.Contains(caching, "immutable") == strings.Contains(path, "entries") || !strings.HasPrefix(caching, "private") ||
				r.status == 200 && r.header.Get("Vary") != "Authorization, Accept-Encoding" {
				t.Errorf("%s: %v", path, r.header)
			}
			if r.status == 200 {
				if again := s.get(path, key, "If-None-Match", r.header.Get("ETag")); again.status != 304 {
					t.Errorf("%s again: %d", path, again.status)
				}
			}
		}
	}
	one := s.get("/v1/events/tile/0/000.p/200", plain)
	two := s.get("/v1/events/tile/0/000.p/200", paid)
	if bytes.Equal(one.body, two.body) || len(one.body) != 200*32 || one.header.Get("ETag") == two.header.Get("ETag") {
		t.Error("keys of both sights get the same")
	}
	if r := s.get("/v1/events/checkpoint", s.key("acme", access.InvoicesRead)); r.status != 403 {
		t.Errorf("without events:read: %d", r.status)
	}
	if r := s.get("/v1/events/tile/0/000.p/200?x=1", plain); r.status != 400 {
		t.Errorf("with a parameter: %d", r.status)
	}
	s.clock.Advance(31 * 24 * time.Hour)
	if r := s.get("/v1/events/tile/entries/000.p/200", plain); r.status != 404 {
		t.Errorf("a bundle past its retention: %d", r.status)
	}
	if r := s.get("/v1/events/tile/0/000.p/200", plain); r.status != 200 {
		t.Errorf("a tile past the retention of its events: %d", r.status)
	}
}

// TestCheckpointIsWaitedFor: a request that has the checkpoint is held until there is
// another, and one that demands a position until the tree has come to it.
func TestCheckpointIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	s.manyEvents("acme", 0, 10)
	s.buildTrees("acme")
	const origin = "api.example.com/acme/events"
	key := s.key("acme", access.EventsRead)
	first := s.checkpoint(key, origin, "Prefer", "wait=30") // has none, so is not held
	hasty := s.config
	hasty.Wait(time.Millisecond, time.Hour, 0)
	if r := send(t, serve(t, testkit.Must(readapi.New(hasty))(t), hasty.Logger), http.MethodGet, "/v1/events/checkpoint", key, "Prefer", "wait=1", "If-None-Match", first.etag); r.status != 304 || r.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("nothing came: %d %v", r.status, r.header)
	}
	answers := make(chan reply, 2)
	for _, header := range []string{"If-None-Match: " + first.etag, "Log-Position-At-Least: 11"} {
		name, value, _ := strings.Cut(header, ": ")
		go func() {
			r, err := ask(t.Context(), s.server, http.MethodGet, "/v1/events/checkpoint", key, "Prefer", "wait=30", name, value)
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	s.until(func() bool { changes, positions := s.api.Waits(); return changes == 1 && positions == 1 })
	s.manyEvents("acme", 10, 2)
	s.buildTrees("acme")
	for range 2 {
		r := <-answers
		c := testkit.Must(open(s.config.Signing, origin, r.body))(t)
		if r.status != 200 || c.N != 8 || c.position != 12 {
			t.Errorf("%d %+v", r.status, c)
		}
	}
}

// TestNothingIsSignedWithoutAKey: the answer says so; tiles are there.
func TestNothingIsSignedWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = nil })
	s.manyEvents("acme", 0, 3)
	s.buildTrees("acme")
	key := s.key("acme", access.EventsRead)
	for _, header := range []string{"X-Request-Id", "If-None-Match"} {
		r := s.get("/v1/events/checkpoint", key, header, `"x"`)
		if r.status != 404 || !strings.Contains(string(r.body), "no signing key") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if r := s.get("/v1/events/tile/0/000.p/2", key); r.status != 200 {
		t.Errorf("a tile: %d", r.status)
	}
}

// TestCosignaturesAreServed with the checkpoint that they are of, and with no other: not under
// another name of the tree, nor when it has grown. They are part of what the ETag names.
func TestCosignaturesAreServed(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	s.workspace("acme")
	const origin = "api.example.com/acme/events"
	key := s.key("acme", access.EventsRead)
	s.manyEvents("acme", 0, 10)
	s.buildTrees("acme")
	plain := s.get("/v1/events/checkpoint", key)
	cosign := func(origin, line string, change func(*eventtree.State)) {
		t.Helper()
		state := *testkit.Must(eventtree.ReadStates(t.Context(), s.pool, []string{"acme"}))(t)["acme"].Of(eventtree.WithoutPay)
		if change != nil {
			change(&state)
		}
		if err := eventtree.SaveCosignature(t.Context(), s.pool, "acme", line[:4], eventtree.WithoutPay, &state, eventtree.Cosignature{Origin: origin, Line: line}); err != nil {
			t.Fatal(err)
		}
	}
	cosign("other.example.com/acme/events", "w0+1 of another name\n", nil)
	cosign(origin, "w1+1 of another root\n", func(s *eventtree.State) { s.Root[0] ^= 1 })
	cosign(origin, "w2+1 of another size\n", func(s *eventtree.State) { s.Size-- })
	cosign(origin, "w3+1 of another chain\n", func(s *eventtree.State) { s.Chain[0] ^= 1 })
	if r := s.get("/v1/events/checkpoint", key); !bytes.Equal(r.body, plain.body) || r.header.Get("ETag") != plain.header.Get("ETag") {
		t.Errorf("cosignatures of other checkpoints are served: %s", r.body)
	}
	cosign(origin, "w4+1 right\n", nil)
	cosign(origin, "w5+1 right as well\n", nil)
	r := s.get("/v1/events/checkpoint", key, "If-None-Match", plain.header.Get("ETag"))
	if want := string(plain.body) + "w4+1 right\nw5+1 right as well\n"; r.status != http.StatusOK || string(r.body) != want {
		t.Errorf("%d %q, want %q", r.status, r.body, want)
	}
	if again := s.get("/v1/events/checkpoint", key, "If-None-Match", r.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.status)
	}
	waits := s.begin(http.MethodGet, "/v1/events/checkpoint", key, "Prefer", "wait=20", "If-None-Match", r.header.Get("ETag"))
	s.waiting(1, 0)
	s.manyEvents("acme", 10, 3)
	s.buildTrees("acme")
	if got := waits.answered(); got.status != http.StatusOK || bytes.Contains(got.body, []byte("w4+1")) {
		t.Errorf("grown: %d %s", got.status, got.body)
	}
}
