package readapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// A cursor is a place in a list, sealed: nobody can read or alter it, and it
// opens only in the circumstances in which it was made (docs/contract/decisions.md,
// "Responses").
//
// The seal is a synthetic one: an HMAC over the circumstances and the place is
// both the proof and the start value of the cipher. The same place in the same
// circumstances gives the same cursor, on every instance, which a strong ETag
// over a page needs.
type sealer struct {
	mac   *keyedHash
	block cipher.Block
}

const (
	sealSize = 16
	// maxCursor bounds what is looked at; a cursor has at most 140 characters.
	maxCursor = 512
)

func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(derive(key, "cursor cipher"))
	if err != nil {
		return nil, fmt.Errorf("prepare the seal of cursors: %w", err)
	}
	return &sealer{mac: newKeyedHash(derive(key, "cursor proof")), block: block}, nil
}

func (s *sealer) proof(circumstances, place []byte) [sealSize]byte {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(circumstances)))
	sum := s.mac.sum(size[:], circumstances, place)
	return [sealSize]byte(sum[:sealSize])
}

// seal makes a cursor of a place.
func (s *sealer) seal(circumstances, place []byte) string {
	proof := s.proof(circumstances, place)
	sealed := make([]byte, sealSize+len(place))
	copy(sealed, proof[:])
	cipher.NewCTR(s.block, proof[:]).XORKeyStream(sealed[sealSize:], place)
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// open gives the place of a cursor; false when it was altered or made in other
// circumstances.
func (s *sealer) open(circumstances []byte, cursor string) ([]byte, bool) {
	if len(cursor) > maxCursor {
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	// The decoder passes over line breaks, which would be an alteration.
	if err != nil || len(sealed) < sealSize || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(cursor) {
		return nil, false
	}
	place := make([]byte, len(sealed)-sealSize)
	cipher.NewCTR(s.block, sealed[:sealSize]).XORKeyStream(place, sealed[sealSize:])
	proof := s.proof(circumstances, place)
	return place, hmac.Equal(proof[:], sealed[:sealSize])
}

// circumstances are what a cursor is tied to: the workspace, the endpoint with
// what its path names, and every other parameter as it came, absent ones too.
// The key is not among them.
func (c *call) circumstances() []byte {
	b := make([]byte, 0, 128)
	b = appendSized(b, c.key.WorkspaceID)
	b = appendSized(b, c.route.pattern)
	b = appendSized(b, c.id)
	for i := range c.route.params {
		p := &c.route.params[i]
		if p.form == formCursor {
			continue
		}
		b = appendSized(b, p.name)
		if !c.given.has(i) {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = appendSized(b, c.given.get(i))
	}
	return b
}

func appendSized(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// place is where a list goes on. Lists of rows use position and id, events
// position alone; for a credit's history see historyPlace.
type place struct {
	position int64
	id       string
}

func (p place) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.position))
	return append(b, p.id...)
}

// parsePlace reads what append wrote; the seal has proved that it did.
func parsePlace(b []byte) place {
	position, n := binary.Uvarint(b)
	return place{position: int64(position), id: string(b[n:])}
}
