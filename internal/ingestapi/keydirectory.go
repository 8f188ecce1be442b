package ingestapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

const (
	// trustFor is how long a key that was found is used without another look at the database. It is
	// less than the second within which a revoked key is refused.
	trustFor = 800 * time.Millisecond
	// maxCachedKeys bounds the keys in memory.
	maxCachedKeys = 10_000
	// MaxLookUps is how many queries for keys run at a time.
	MaxLookUps = 2
	// maxLookUp bounds a look-up.
	maxLookUp = 5 * time.Second
)

// Errors of KeyDirectory.Authenticate.
var (
	// ErrKeyRefused means that a request has no valid key.
	ErrKeyRefused = errors.New("the producer's key is refused")
	// ErrKeysUnavailable means that the database does not answer, so a key cannot be checked.
	ErrKeysUnavailable = errors.New("producers' keys cannot be checked now")
)

// KeyDirectory checks keys.
type KeyDirectory struct {
	pool    pg.DB
	format  access.Format
	clock   func() time.Time
	cache   *lru.Cache[keyHash, cachedKey]
	lookUps *flow.Coalescer[*keyLookUp]
}

// keyHash is the SHA-256 of a key's full text. Keys are found by it alone, so how long a look-up
// takes says nothing about other keys.
type keyHash = [32]byte

// cachedKey is a key, and when the database was asked for it.
type cachedKey struct {
	key    *Key
	endsAt *time.Time // of the secret
	readAt time.Time
}

type keyLookUp struct {
	hash  keyHash
	found *cachedKey // nil: there is no such key, or it is revoked
	err   error
}

// NewKeyDirectory makes a KeyDirectory; it starts nothing and needs no closing.
func NewKeyDirectory(pool pg.DB, format access.Format, clock func() time.Time) (*KeyDirectory, error) {
	cache, err := lru.New[keyHash, cachedKey](maxCachedKeys)
	if err != nil {
		return nil, fmt.Errorf("cannot remember producers' keys: %w", err)
	}
	d := &KeyDirectory{pool: pool, format: format, clock: clock, cache: cache}
	d.lookUps = flow.NewCoalescer(flow.CoalescerConfig[*keyLookUp]{Run: d.read, Timeout: maxLookUp, Concurrent: MaxLookUps, Detached: true})
	return d, nil
}

// Authenticate returns the key with the given full text. The error is ErrKeyRefused for every
// reason for which a key is not valid, ErrKeysUnavailable if the database is needed and does not answer, or
// ctx's own.
func (d *KeyDirectory) Authenticate(ctx context.Context, text string) (*Key, error) {
	secret, err := d.format.Parse(text)
	if err != nil {
		return nil, ErrKeyRefused
	}
	h, now := secret.Hash(), d.clock()
	c, known := d.cache.Get(h)
	if since := now.Sub(c.readAt); !known || since < 0 || since >= trustFor {
		l := &keyLookUp{hash: h}
		if err := d.lookUps.Do(ctx, l); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
		}
		if l.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, l.err)
		}
		if l.found == nil {
			d.cache.Remove(h)
			return nil, ErrKeyRefused
		}
		c = *l.found
	}
	if c.endsAt != nil && !now.Before(*c.endsAt) {
		return nil, ErrKeyRefused
	}
	return c.key, nil
}

// read answers a batch of look-ups.
func (d *KeyDirectory) read(ctx context.Context, lookUps []*keyLookUp) {
	now := d.clock()
	wanted := make([][]byte, len(lookUps))
	for i, l := range lookUps {
		wanted[i] = l.hash[:]
	}
	found := map[keyHash]*cachedKey{}
	var (
		stored      []byte
		k           Key
		workspaceID string
		endsAt      *time.Time
	)
	err := pg.ForEach(ctx, d.pool, `
		SELECT s.hash, s.producer_id, s.prefix, s.ends_at, p.workspace_id, p.name, p.types
		  FROM producer_secret s JOIN producer p ON p.workspace_id = s.workspace_id AND p.producer_id = s.producer_id
		 WHERE s.hash = ANY ($1) AND p.revoked_at IS NULL ORDER BY p.workspace_id`,
		[]any{wanted}, []any{&stored, &k.ID, &k.Prefix, &endsAt, &workspaceID, &k.Name, &k.Types}, func() error {
			h := keyHash(stored) // 32 bytes by a constraint of the table
			if found[h] == nil {
				one := k
				one.Types = slices.Clone(k.Types)
				found[h] = &cachedKey{key: &one, endsAt: endsAt, readAt: now}
			}
			found[h].key.Workspaces = append(found[h].key.Workspaces, workspaceID)
			k.Types, endsAt = nil, nil
			return nil
		})
	for _, l := range lookUps {
		l.found, l.err = found[l.hash], err
	}
	for h, c := range found {
		d.cache.Add(h, *c)
	}
}

// Probe asks for a key that does not exist, as requests ask.
func (d *KeyDirectory) Probe(ctx context.Context) error {
	l := &keyLookUp{}
	d.read(ctx, []*keyLookUp{l})
	if l.err != nil {
		return fmt.Errorf("look for a producer's key: %w", l.err)
	}
	return nil
}
