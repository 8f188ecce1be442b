package follower

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Tree is one follower's view of a tree: the newest checkpoint that it has accepted. It is not safe
// for concurrent use.
type Tree struct {
	origin    string
	keys      *signingkey.Verifiers
	witnesses Witnesses
	accepted  *Signed // nil: none yet
	tiles     *tileCache
}

// NewTree makes a Tree. accepted is the note that an earlier run accepted; nil: none. The error
// says that this note is not one of the tree.
func NewTree(origin string, keys *signingkey.Verifiers, witnesses Witnesses, accepted []byte, fetch fetchTile) (*Tree, error) {
	t := &Tree{origin: origin, keys: keys, witnesses: witnesses, tiles: newTileCache(fetch)}
	if accepted != nil {
		var err error
		if t.accepted, err = t.open(accepted); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// size returns the size of the accepted tree; 0: none is accepted.
func (t *Tree) size() int64 {
	if t.accepted == nil {
		return 0
	}
	return t.accepted.Tree.N
}

// proving returns the size up to which the accepted checkpoint proves events. It is 0 if a
// checkpoint from an earlier run has fewer cosignatures than are needed now.
func (t *Tree) proving() int64 {
	if t.accepted == nil || t.witnesses.missing(t.accepted) != "" {
		return 0
	}
	return t.accepted.Tree.N
}

// open checks the signatures of a note and its form. A wrong one is a DifferenceError.
func (t *Tree) open(note []byte) (*Signed, error) {
	c, err := t.keys.OpenCheckpoint(note, t.origin)
	if err != nil {
		return nil, &DifferenceError{Sentence: err.Error(), Seen: note}
	}
	return &Signed{Checkpoint: c, Cosigned: t.witnesses.of(note)}, nil
}

// uncosignedError says that a checkpoint does not have the cosignatures that it needs, or not yet.
type uncosignedError struct {
	seen    *Signed
	missing string
}

func (e *uncosignedError) Error() string {
	return fmt.Sprintf("the checkpoint of size %d is not cosigned: %s", e.seen.Tree.N, e.missing)
}

// staleError says that a checkpoint is older than the accepted one and does not contradict it.
type staleError struct{ seen, accepted *Signed }

func (e *staleError) Error() string {
	return fmt.Sprintf("the checkpoint is of size %d at position %d, after one of size %d at position %d",
		e.seen.Tree.N, e.seen.Position, e.accepted.Tree.N, e.accepted.Position)
}

// Accept accepts a checkpoint that is signed and extends the one accepted before. It returns a
// staleError if the checkpoint is older, and an uncosignedError if too few witnesses have cosigned
// it. After an error, the earlier checkpoint stays accepted.
func (t *Tree) Accept(ctx context.Context, note []byte) error {
	seen, err := t.open(note)
	if err != nil {
		return t.withKept(err)
	}
	if missing := t.witnesses.missing(seen); missing != "" {
		return &uncosignedError{seen, missing}
	}
	if t.accepted == nil {
		t.accepted = seen
		return nil
	}
	if err := t.compare(ctx, seen); err != nil {
		return t.withKept(err)
	}
	t.accepted = seen
	return nil
}

// withKept adds the accepted note to err if err is a DifferenceError.
func (t *Tree) withKept(err error) error {
	var d *DifferenceError
	if errors.As(err, &d) && d.Kept == nil && t.accepted != nil {
		d.Kept = t.accepted.Note
	}
	return err
}

// compare checks a checkpoint against the accepted one.
func (t *Tree) compare(ctx context.Context, seen *Signed) error {
	have := t.accepted
	differs := func(format string, args ...any) error {
		return &DifferenceError{Sentence: fmt.Sprintf(format, args...), Seen: seen.Note}
	}
	older, newer := have, seen
	if seen.Tree.N < have.Tree.N {
		older, newer = seen, have
	}
	switch {
	case seen.Position == have.Position && seen.Chain != have.Chain:
		return differs("two signed checkpoints say that the log's chain at position %d is %s and %s", seen.Position, have.Chain, seen.Chain)
	case seen.Position == have.Position && seen.Tree.N != have.Tree.N:
		return differs("two signed checkpoints say that the tree had the size %d and the size %d at position %d", have.Tree.N, seen.Tree.N, seen.Position)
	case older.Tree.N != newer.Tree.N && older.Position > newer.Position:
		return differs("the tree has the size %d at position %d, and %d at position %d: it cannot be smaller at a later position",
			older.Tree.N, older.Position, newer.Tree.N, newer.Position)
	}
	root, err := t.rootAt(ctx, newer, older.Tree.N)
	var missing *DifferenceError
	if errors.As(err, &missing) && newer == have {
		// An instance that is behind has no tiles of the newer tree yet.
		return &staleError{seen, have}
	}
	if err != nil {
		return err
	}
	if root != older.Tree.Hash {
		if older.Tree.N == newer.Tree.N {
			return differs("two signed checkpoints of size %d have the roots %s and %s: the tree was forked", seen.Tree.N, have.Tree.Hash, seen.Tree.Hash)
		}
		return differs("the signed tree of size %d does not extend the signed tree of size %d: its first %s differ from before", newer.Tree.N, older.Tree.N, texts.Count(older.Tree.N, "event", "events"))
	}
	if newer == have && newer.Tree.N > older.Tree.N || seen.Position < have.Position {
		return &staleError{seen, have}
	}
	return nil
}

// rootAt returns the root that a signed tree had at a size.
func (t *Tree) rootAt(ctx context.Context, signed *Signed, size int64) (tlog.Hash, error) {
	if size == signed.Tree.N {
		return signed.Tree.Hash, nil
	}
	if size == 0 {
		return tlog.Hash(sha256.Sum256(nil)), nil // the root of an empty tree
	}
	return read(ctx, t, signed, func(hashes tlog.HashReader) (tlog.Hash, error) { return tlog.TreeHash(size, hashes) })
}

// Prove returns a proof that the accepted tree extends its own first old leaves, as a witness asks
// for. old is at least 1 and at most the tree's size.
func (t *Tree) Prove(ctx context.Context, old int64) (tlog.TreeProof, error) {
	return read(ctx, t, t.accepted, func(r tlog.HashReader) (tlog.TreeProof, error) { return tlog.ProveTree(t.size(), old, r) })
}

// read calls work with hashes that belong to a signed root. If the cached tiles do not belong to
// it, it drops them and calls work again.
func read[T any](ctx context.Context, t *Tree, signed *Signed, work func(tlog.HashReader) (T, error)) (T, error) {
	for {
		r := &reading{ctx: ctx, cache: t.tiles}
		result, err := work(tlog.TileHashReader(signed.Tree, r))
		var d *DifferenceError
		switch {
		case err == nil:
			return result, nil
		case errors.As(r.err, &d):
			d.Seen = signed.Note
			return result, t.withKept(d)
		case r.err != nil:
			return result, r.err
		case !r.tried:
			return result, t.withKept(&DifferenceError{Sentence: fmt.Sprintf("the tiles are not those of the signed tree of size %d: %v", signed.Tree.N, err), Seen: signed.Note})
		}
		t.tiles.forget()
	}
}

// Check checks consecutive events, the first of them at index first, against the accepted
// checkpoint, whose tree must have them all. The error names the first event that differs.
func (t *Tree) Check(ctx context.Context, first int64, events []json.RawMessage) error {
	leaves := leavesOf(events)
	indexes := make([]int64, len(events))
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, first+int64(i))
	}
	signed := t.accepted
	hashes, err := read(ctx, t, signed, func(r tlog.HashReader) ([]tlog.Hash, error) { return r.ReadHashes(indexes) })
	if err != nil {
		return err
	}
	for i, event := range events {
		if leaves[i] == hashes[i] {
			continue
		}
		sentence := fmt.Sprintf("the event at index %d (%s) is not the one that the signed tree of size %d has there", first+int64(i), nameOf(event), signed.Tree.N)
		for j := range hashes {
			if hashes[j] == leaves[i] {
				sentence += fmt.Sprintf("; the tree has it at index %d", first+int64(j))
				break
			}
		}
		return t.withKept(&DifferenceError{Sentence: sentence, Seen: signed.Note, Shown: event})
	}
	return nil
}

// entry returns the event at an index of the accepted tree, read from its bundle of events. nil:
// the service does not give the bundle, because it no longer keeps the bundle's first event.
func (t *Tree) entry(ctx context.Context, index int64) (json.RawMessage, error) {
	tile := tlog.Tile{H: tileHeight, L: -1, N: index / tileWidth, W: int(min(tileWidth, t.size()-index/tileWidth*tileWidth))}
	path := "tile/entries/" + strings.TrimPrefix(tile.Path(), fmt.Sprintf("tile/%d/data/", tileHeight))
	bundle, found, err := t.tiles.fetch(ctx, path)
	if err != nil || !found {
		return nil, err
	}
	rest := bundle
	for i := index / tileWidth * tileWidth; len(rest) >= 2; i++ {
		size := 2 + int(binary.BigEndian.Uint16(rest))
		if size > len(rest) {
			break
		}
		if i == index {
			event := json.RawMessage(rest[2:size])
			return event, t.Check(ctx, index, []json.RawMessage{event})
		}
		rest = rest[size:]
	}
	return nil, t.withKept(&DifferenceError{Sentence: fmt.Sprintf("the bundle %s does not have the event at index %d", path, index), Seen: t.accepted.Note, Shown: bundle})
}

func leavesOf(events []json.RawMessage) []tlog.Hash {
	leaves := make([]tlog.Hash, len(events))
	for i, event := range events {
		leaves[i] = tlog.RecordHash(event)
	}
	return leaves
}

// nameOf names an event in messages.
func nameOf(event json.RawMessage) string {
	var shown struct{ ID string }
	if err := json.Unmarshal(event, &shown); err != nil || shown.ID == "" {
		return "without an id"
	}
	return fmt.Sprintf("id %.80q", shown.ID)
}
