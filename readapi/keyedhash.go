package readapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// keyedHash is HMAC-SHA-256 under one key. Hashes are used again, because setting
// one up with the key costs as much as hashing a short text.
type keyedHash struct {
	key  []byte
	idle sync.Pool // of hash.Hash
}

func newKeyedHash(key []byte) *keyedHash { return &keyedHash{key: key} }

// sum hashes the parts one after the other.
func (k *keyedHash) sum(parts ...[]byte) (sum [sha256.Size]byte) {
	h, ok := k.idle.Get().(hash.Hash)
	if ok {
		h.Reset()
	} else {
		h = hmac.New(sha256.New, k.key)
	}
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	k.idle.Put(h)
	return sum
}

// deriveKey makes a key for one purpose from Config.CursorKey.
func deriveKey(key []byte, purpose string) []byte {
	sum := newKeyedHash(key).sum([]byte("ledgerfeed " + purpose))
	return sum[:]
}
