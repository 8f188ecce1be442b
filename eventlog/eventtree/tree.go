package eventtree

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// The form of tiles (https://c2sp.org/tlog-tiles): a tile has up to TileWidth hashes.
const (
	tileHeight = 8
	TileWidth  = 1 << tileHeight
)

// levels is how many levels of tiles a tree can have, because its size is an int64.
const levels = 8

// Tile holds consecutive hashes of one level of a tree.
type Tile struct {
	Level  int
	Index  int64 // it begins with hash TileWidth*Index of the level
	Hashes []tlog.Hash
}

// bytes returns the hashes as they are stored and served.
func (t *Tile) bytes() []byte {
	b := make([]byte, 0, len(t.Hashes)*tlog.HashSize)
	for i := range t.Hashes {
		b = append(b, t.Hashes[i][:]...)
	}
	return b
}

// hashesOf reads the hashes that bytes returned.
func hashesOf(b []byte) []tlog.Hash {
	hashes := make([]tlog.Hash, len(b)/tlog.HashSize, TileWidth)
	for i := range hashes {
		hashes[i] = tlog.Hash(b[i*tlog.HashSize:])
	}
	return hashes
}

// Tree is a tree that leaves can be added to. It holds only the tiles at its edge: one for each
// level, less than full. The zero Tree is empty.
type Tree struct {
	size int64
	edge [levels][]tlog.Hash
}

// Size returns how many leaves the tree has.
func (t *Tree) Size() int64 { return t.size }

// Append adds a leaf, and calls full with each tile that this fills.
func (t *Tree) Append(leaf tlog.Hash, full func(Tile)) {
	hash := leaf
	for level := range t.edge {
		t.edge[level] = append(t.edge[level], hash)
		if len(t.edge[level]) < TileWidth {
			break
		}
		tile := Tile{Level: level, Index: t.size >> (tileHeight * (level + 1)), Hashes: t.edge[level]}
		t.edge[level] = nil
		full(tile)
		hash = rootOf(tile.Hashes)
	}
	t.size++
}

// rootOf returns the root of a complete subtree. The number of hashes must be a power of two.
func rootOf(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return tlog.NodeHash(rootOf(hashes[:half]), rootOf(hashes[half:]))
}

// Root returns the tree's root. An empty tree has the root that is defined for no leaves.
func (t *Tree) Root() tlog.Hash {
	root, err := tlog.TreeHash(t.size, tlog.HashReaderFunc(t.read))
	if err != nil {
		panic("eventtree: " + err.Error()) // all hashes that it asks for are at the edge
	}
	return root
}

// read returns the roots of complete subtrees that end at the edge.
func (t *Tree) read(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		edge, width := t.edge[level/tileHeight], 1<<(level%tileHeight)
		from := int(n) * width % TileWidth
		if from+width > len(edge) {
			return nil, fmt.Errorf("hash %d of level %d is not at the edge of a tree of %d leaves", n, level, t.size)
		}
		hashes[i] = rootOf(edge[from : from+width])
	}
	return hashes, nil
}

// partial returns the tiles at the edge that are not empty.
func (t *Tree) partial() (tiles []Tile) {
	for level, hashes := range t.edge {
		if len(hashes) > 0 {
			tiles = append(tiles, Tile{Level: level, Index: t.size >> (tileHeight * (level + 1)), Hashes: hashes})
		}
	}
	return tiles
}

// widthAtEdge returns how many hashes the tile at the edge of a level has.
func widthAtEdge(size int64, level int) int { return int(size >> (tileHeight * level) % TileWidth) }

// hasTile reports whether a tree of the given size has at least width hashes of a tile.
func hasTile(size int64, level int, index int64, width int) bool {
	there := size>>(tileHeight*level) - index*TileWidth
	return index <= size>>(tileHeight*level)/TileWidth && there >= int64(width)
}
