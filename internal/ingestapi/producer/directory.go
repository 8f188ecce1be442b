package producer

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
	// maxCached bounds the keys in memory.
	maxCached = 10_000
	// MaxLookUps is how many queries for keys run at a time.
	MaxLookUps = 2
	// maxLookUp bounds a look-up.
	maxLookUp = 5 * time.Second
)

// Errors of Authenticate.
var (
	// ErrRefused means that a request has no valid key.
	ErrRefused = errors.New("the producer's key is refused")
	// ErrUnavailable means that the database does not answer, so a key cannot be checked.
	ErrUnavailable = errors.New("producers' keys cannot be checked now")
)

// Directory checks keys.
type Directory struct {
	pool    pg.DB
	format  access.Format
	clock   func() time.Time
	cache   *lru.Cache[hash, cached]
	lookUps *flow.Coalescer[*lookUp]
}

// hash is the SHA-256 of a key's full text. Keys are found by it alone, so how long a look-up takes
// says nothing about other keys.
type hash = [32]byte

// cached is a key, and when the database was asked for it.
type cached struct {
	key    *Key
	endsAt *time.Time // of the secret
	readAt time.Time
}

type lookUp struct {
	hash  hash
	found *cached // nil: there is no such key, or it is revoked
	err   error
}

// NewDirectory makes a Directory; it starts nothing and needs no closing.
func NewDirectory(pool pg.DB, format access.Format, clock func() time.Time) (*Directory, error) {
	cache, err := lru.New[hash, cached](maxCached)
	if err != nil {
		return nil, fmt.Errorf("cannot remember producers' keys: %w", err)
	}
	d := &Directory{pool: pool, format: format, clock: clock, cache: cache}
	d.lookUps = flow.NewCoalescer(flow.CoalescerConfig[*lookUp]{Run: d.read, Timeout: maxLookUp, Concurrent: MaxLookUps, Detached: true})
	return d, nil
}

// Authenticate returns the key with the given full text. The error is ErrRefused for every reason
// for which a key is not valid, ErrUnavailable if the database is needed and does not answer, or
// ctx's own.
func (d *Directory) Authenticate(ctx context.Context, text string) (*Key, error) {
	secret, err := d.format.Parse(text)
	if err != nil {
		return nil, ErrRefused
	}
	h, now := secret.Hash(), d.clock()
	c, known := d.cache.Get(h)
	if since := now.Sub(c.readAt); !known || since < 0 || since >= trustFor {
		l := &lookUp{hash: h}
		if err := d.lookUps.Do(ctx, l); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if l.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, l.err)
		}
		if l.found == nil {
			d.cache.Remove(h)
			return nil, ErrRefused
		}
		c = *l.found
	}
	if c.endsAt != nil && !now.Before(*c.endsAt) {
		return nil, ErrRefused
	}
	return c.key, nil
}

// read answers a batch of look-ups.
func (d *Directory) read(ctx context.Context, lookUps []*lookUp) {
	now := d.clock()
	wanted := make([][]byte, len(lookUps))
	for i, l := range lookUps {
		wanted[i] = l.hash[:]
	}
	found := map[hash]*cached{}
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
			h := hash(stored) // 32 bytes by a constraint of the table
			if found[h] == nil {
				one := k
				one.Types = slices.Clone(k.Types)
				found[h] = &cached{key: &one, endsAt: endsAt, readAt: now}
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
func (d *Directory) Probe(ctx context.Context) error {
	l := &lookUp{}
	d.read(ctx, []*lookUp{l})
	if l.err != nil {
		return fmt.Errorf("look for a producer's key: %w", l.err)
	}
	return nil
}
