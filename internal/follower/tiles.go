package follower

import (
	"context"
	"fmt"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// tileHeight and tileWidth are fixed by https://c2sp.org/tlog-tiles.
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	// keptTiles bounds the number of tiles in memory, each up to 8 KiB.
	keptTiles = 256
)

// fetchTile gets a tile's data; found is false if the service has no such tile.
type fetchTile func(ctx context.Context, path string) (data []byte, found bool, err error)

// tileAt is a tile's level and number, regardless of its width.
type tileAt struct {
	level  int
	number int64
}

// tileCache keeps tiles. It computes the tiles at the right edge of the tree from the leaves that
// it is given, so that a follower at the end of a feed fetches none. Its contents need not be true:
// a tlog.HashReader checks each tile against the root.
type tileCache struct {
	fetch fetchTile
	kept  *lru.Cache[tileAt, []byte]
}

func newTileCache(fetch fetchTile) *tileCache {
	kept, err := lru.New[tileAt, []byte](keptTiles)
	if err != nil {
		panic(err) // the size is above 0
	}
	return &tileCache{fetch, kept}
}

// forget forgets all tiles.
func (c *tileCache) forget() { c.kept.Purge() }

// offer adds the hashes of consecutive leaves, as a page shows them. first is the index of the
// first.
func (c *tileCache) offer(first int64, leaves []tlog.Hash) {
	for i, leaf := range leaves {
		c.append(0, first+int64(i), leaf)
	}
}

// append adds a hash to its tile if the tile has all the hashes before it.
func (c *tileCache) append(level int, index int64, hash tlog.Hash) {
	at := tileAt{level, index / tileWidth}
	within := int(index % tileWidth)
	have, _ := c.kept.Get(at)
	if end := (within + 1) * tlog.HashSize; len(have) >= end {
		if tlog.Hash(have[end-tlog.HashSize:end]) == hash {
			return
		}
		have = have[:end-tlog.HashSize]
	}
	if len(have) != within*tlog.HashSize {
		return
	}
	have = append(have[:len(have):len(have)], hash[:]...)
	c.kept.Add(at, have)
	if within == tileWidth-1 {
		c.append(level+1, at.number, subtree(have))
	}
}

// subtree returns the root over a tile's hashes. Their number must be a power of two.
func subtree(data []byte) tlog.Hash {
	if len(data) == tlog.HashSize {
		return tlog.Hash(data)
	}
	half := len(data) / 2
	return tlog.NodeHash(subtree(data[:half]), subtree(data[half:]))
}

// reading is a tlog.TileReader for one request.
type reading struct {
	ctx   context.Context //nolint:containedctx // tlog.TileReader has none, and this lives as long as one call
	cache *tileCache
	tried bool // whether a kept tile was used
	err   error
}

func (r *reading) Height() int { return tileHeight }

// ReadTiles returns the tiles and fetches only those that the cache does not have.
func (r *reading) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	list := make([][]byte, len(tiles))
	for i, tile := range tiles {
		size := tile.W * tlog.HashSize
		if have, ok := r.cache.kept.Get(tileAt{tile.L, tile.N}); ok && len(have) >= size {
			list[i], r.tried = have[:size], true
			continue
		}
		data, err := r.cache.get(r.ctx, tile)
		if err != nil {
			r.err = err
			return nil, err
		}
		list[i] = data
	}
	return list, nil
}

// SaveTiles caches tiles that belong to the root.
func (r *reading) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	for i, tile := range tiles {
		at := tileAt{tile.L, tile.N}
		if have, ok := r.cache.kept.Get(at); !ok || len(have) < len(data[i]) {
			r.cache.kept.Add(at, data[i])
		}
	}
}

// get fetches a tile. If a partial tile is gone, it cuts the tile from the whole one, as tlog-tiles
// asks of clients.
func (c *tileCache) get(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	size := tile.W * tlog.HashSize
	data, found, err := c.fetch(ctx, tilePath(tile))
	if err != nil {
		return nil, err
	}
	if !found && tile.W < tileWidth {
		whole := tile
		whole.W = tileWidth
		if data, found, err = c.fetch(ctx, tilePath(whole)); err != nil {
			return nil, err
		}
		if found && len(data) == tileWidth*tlog.HashSize {
			data = data[:size]
		}
	}
	if !found {
		return nil, &DifferenceError{Sentence: fmt.Sprintf("the service does not have the tile %s, which the checkpoint that it signed stands on", tilePath(tile))}
	}
	if len(data) != size {
		return nil, &DifferenceError{Sentence: fmt.Sprintf("the tile %s has %d bytes, want %d", tilePath(tile), len(data), size), Shown: data}
	}
	return data, nil
}

// tilePath returns a tile's path below /v1/events/: tile/<level>/<number>[.p/<width>].
func tilePath(t tlog.Tile) string {
	return "tile/" + strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", t.H))
}
