package eventtree_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestRootsOfEverySize: the root after each leaf is that of RFC 6962, and each full tile has
// its hashes.
func TestRootsOfEverySize(t *testing.T) {
	t.Parallel()
	var tree eventtree.Tree
	m := &memory{}
	for n := range int64(67_000) {
		if n%97 == 0 || n%256 < 2 || n > 65_500 && n < 65_600 {
			if want := testkit.Must(tlog.TreeHash(n, m))(t); tree.Root() != want {
				t.Fatalf("the root of %d leaves is %v, want %v", n, tree.Root(), want)
			}
		}
		leaf := tlog.RecordHash(fmt.Append(nil, n))
		m.hashes = append(m.hashes, testkit.Must(tlog.StoredHashesForRecordHash(n, leaf, m))(t)...)
		tree.Append(leaf, func(full eventtree.Tile) {
			want := testkit.Must(tlog.ReadTileData(tlog.Tile{H: 8, L: full.Level, N: full.Index, W: 256}, m))(t)
			var got []byte
			for _, h := range full.Hashes {
				got = append(got, h[:]...)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("tile %d of level %d is another", full.Index, full.Level)
			}
		})
	}
}

// TestPathsAreThoseOfTheSpecification: what the package of the checksum database writes is
// read, and no other text for the same tile.
func TestPathsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		tile := tlog.Tile{H: 8, L: random.IntN(64), N: random.Int64N(1 << (1 + random.IntN(48))), W: 1 + random.IntN(256)}
		p, ok := eventtree.ParsePath(strings.TrimPrefix(tile.Path(), "tile/8/"))
		if want := (eventtree.Path{Level: tile.L, Index: tile.N, Width: tile.W}); !ok || p != want {
			t.Fatalf("%s is read as %+v", tile.Path(), p)
		}
	}
	for _, text := range []string{
		"", "0", "00", "0000", "x000", "x000/001", "001/002", "x001/x002", "x001/02", "+01", "00a", "001.p/0", "001.p/00", "001.p/256", "001.p/01", "001.p/", "001.p/-1",
		"001.p/1/", "001.p/1.p/1", "001.p", "001/", "/001", "X001/002", "x001/x001/x001/x001/x001/001", " 001",
	} {
		if p, ok := eventtree.ParsePath("0/" + text); ok {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	for _, text := range []string{"", "64", "00", "01", "-1", "x", "100", "data"} {
		if p, ok := eventtree.ParsePath(text + "/000"); ok {
			t.Errorf("%q is read as level %d", text, p.Level)
		}
	}
}
