package followertest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Feed is a feed's events and the tree over them.
type Feed struct {
	events []string
	stored []tlog.Hash
}

// NewFeed makes the tree over events.
func NewFeed(events []string) *Feed {
	f := &Feed{}
	for _, event := range events {
		f.add(event)
	}
	return f
}

func (f *Feed) add(event string) {
	hashes, err := tlog.StoredHashes(int64(len(f.events)), []byte(event), f)
	if err != nil {
		panic(err) // the reader has all hashes
	}
	f.stored = append(f.stored, hashes...)
	f.events = append(f.events, event)
}

// Event returns an event as a feed shows it. Another salt makes another event of the same number.
func Event(number int, salt string) string {
	return fmt.Sprintf(`{"id":"evt_%06d","type":"invoice.issued","created_at":"2026-11-%02dT09:15:00.%03dZ","data":{"object_type":"invoice","object_id":"inv_%d%s","invoice_number":"Ä <&> %d"}}`,
		number, 1+number/1000%28, number%1000, number, salt, number)
}

// Some makes a feed of n events.
func Some(n int) *Feed {
	events := make([]string, n)
	for i := range events {
		events[i] = Event(i, "")
	}
	return NewFeed(events)
}

// With returns the feed with another event at an index.
func (f *Feed) With(index int, event string) *Feed {
	events := append([]string(nil), f.events...)
	events[index] = event
	return NewFeed(events)
}

// ReadHashes reads stored hashes (tlog.HashReader).
func (f *Feed) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index >= int64(len(f.stored)) {
			return nil, fmt.Errorf("there is no hash %d", index)
		}
		list[i] = f.stored[index]
	}
	return list, nil
}

// Lines returns the first n events, one per line.
func (f *Feed) Lines(n int) string {
	var b strings.Builder
	for _, event := range f.events[:n] {
		b.WriteString(event + "\n")
	}
	return b.String()
}

// Root returns the root of the first n events.
func (f *Feed) Root(n int) tlog.Hash {
	root, err := tlog.TreeHash(int64(n), f)
	if err != nil {
		panic(err)
	}
	return root
}

// Checkpoint returns the text of a checkpoint of the first n events. The events are at the odd
// positions of the log, with an internal entry after each.
func (f *Feed) Checkpoint(origin string, n int) string {
	chain := sha256.Sum256([]byte(f.Lines(n)))
	return fmt.Sprintf("%s\n%d\n%s\nposition %d\nchain %s\n", origin, n, f.Root(n), 2*n, base64.StdEncoding.EncodeToString(chain[:]))
}

// Tile returns a tile of a tree of a size (tile/<level>/<number>[.p/<width>]), or a bundle of
// events (tile/entries/<number>[.p/<width>]).
func (f *Feed) Tile(path string, size int) (data string, found bool) {
	rest := strings.TrimPrefix(path, "tile/")
	if number, ok := strings.CutPrefix(rest, "entries/"); ok {
		rest = "data/" + number
	}
	tile, err := tlog.ParseTilePath("tile/8/" + rest)
	if err != nil {
		return "", false
	}
	level := max(tile.L, 0)
	if end := (tile.N<<8 + int64(tile.W)) << (8 * level); end > int64(size) {
		return "", false
	}
	if tile.L < 0 {
		var b strings.Builder
		for _, event := range f.events[tile.N<<8 : tile.N<<8+int64(tile.W)] {
			b.WriteString(string([]byte{byte(len(event) >> 8), byte(len(event))}) + event)
		}
		return b.String(), true
	}
	raw, err := tlog.ReadTileData(tile, f)
	if err != nil {
		return "", false
	}
	return string(raw), true
}
