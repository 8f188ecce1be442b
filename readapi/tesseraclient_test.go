package readapi_test

import (
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestTesseraClientReadsTheFeed: the client of another project for the same forms reads
// checkpoints, tiles and bundles as they are served, and its trackers of both sights prove
// that the feed grows and that random events are in it.
func TestTesseraClientReadsTheFeed(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *readapi.Config) { c.Signing = signingKeys(t, 1) })
	random := rand.New(rand.NewPCG(1, 2))
	s.workspace("acme")
	trackers := map[string]*tesseraReader{}
	for origin, key := range map[string]string{
		"api.example.com/acme/events":          s.key("acme", access.EventsRead),
		"api.example.com/acme/events-with-pay": s.key("acme", access.EventsRead, access.PayRead),
	} {
		trackers[origin] = s.tesseraReader(origin, key)
	}
	total := 0
	for _, count := range []int{5, 900, 250} {
		s.manyEvents("acme", total, count)
		total += count
		s.buildTrees("acme")
		for origin, r := range trackers {
			before := r.Latest().Size
			if _, _, _, err := r.Update(t.Context()); err != nil {
				t.Fatalf("%s does not grow from %d: %v", origin, before, err)
			}
			r.proves(random, s.entries(r.key, 0, int64(r.Latest().Size)))
			if r.Latest().Size <= before {
				t.Errorf("%s has %d events, and had %d", origin, r.Latest().Size, before)
			}
		}
	}
	if n := trackers["api.example.com/acme/events-with-pay"].Latest().Size; n != uint64(total) {
		t.Errorf("%d events, want %d", n, total)
	}
}

// tesseraReader is the client of Tessera with the key of a reader.
type tesseraReader struct {
	*client.LogStateTracker

	t       testing.TB
	fetcher *client.HTTPFetcher
	key     string
}

func (s *stand) tesseraReader(origin, key string) *tesseraReader {
	s.t.Helper()
	r := &tesseraReader{t: s.t, key: key, fetcher: testkit.Must(client.NewHTTPFetcher(testkit.Must(url.Parse(s.server.URL+"/v1/events/"))(s.t), s.server.Client()))(s.t)}
	r.fetcher.SetAuthorizationHeader("Bearer " + key)
	verifier := testkit.Must(note.NewVerifier(testkit.Must(s.config.Signing.Verifiers(origin))(s.t)[0]))(s.t)
	r.LogStateTracker = testkit.Must(client.NewLogStateTracker(s.t.Context(), r.fetcher.ReadTile, nil, verifier, origin, client.UnilateralConsensus(r.fetcher.ReadCheckpoint)))(s.t)
	return r
}

// proves checks bundles, and that random events are in the tree, which has these events.
func (r *tesseraReader) proves(random *rand.Rand, events []string) {
	r.t.Helper()
	latest := r.Latest()
	for i := range (latest.Size + 255) / 256 {
		bundle := testkit.Must(client.GetEntryBundle(r.t.Context(), r.fetcher.ReadEntryBundle, i, latest.Size))(r.t)
		for n, entry := range bundle.Entries {
			if string(entry) != events[i*256+uint64(n)] {
				r.t.Fatalf("event %d of bundle %d is another", n, i)
			}
		}
	}
	builder := testkit.Must(client.NewProofBuilder(r.t.Context(), latest.Size, r.fetcher.ReadTile))(r.t)
	for range 40 {
		index := random.Uint64N(latest.Size)
		nodes := testkit.Must(builder.InclusionProof(r.t.Context(), index))(r.t)
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, latest.Size, rfc6962.DefaultHasher.HashLeaf([]byte(events[index])), nodes, latest.Hash); err != nil {
			r.t.Errorf("event %d of %d: %v", index, latest.Size, err)
		}
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, latest.Size, rfc6962.DefaultHasher.HashLeaf([]byte(events[index]+" ")), nodes, latest.Hash); err == nil {
			r.t.Errorf("event %d of %d: another event is proven, too", index, latest.Size)
		}
	}
}
