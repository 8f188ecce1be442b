package readapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// cursorSealer makes cursors of positions in lists. A cursor is a sealed position:
// nobody can read or alter it, and it opens only with the associated data with which
// it was sealed (docs/contract/decisions.md, "Responses").
//
// The seal is a synthetic one: an HMAC over the associated data and the position is
// both the proof and the initial counter of the cipher. So the same position with
// the same associated data gives the same cursor on every instance, which a strong
// ETag over a page needs.
type cursorSealer struct {
	mac   *keyedHash
	block cipher.Block
}

const (
	proofSize = 16
	// maxCursor bounds what is looked at; a cursor has at most 140 characters.
	maxCursor = 512
)

func newCursorSealer(key []byte) (*cursorSealer, error) {
	block, err := aes.NewCipher(deriveKey(key, "cursor cipher"))
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher of cursors: %w", err)
	}
	return &cursorSealer{mac: newKeyedHash(deriveKey(key, "cursor proof")), block: block}, nil
}

func (s *cursorSealer) proof(associated, position []byte) [proofSize]byte {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(associated)))
	sum := s.mac.sum(size[:], associated, position)
	return [proofSize]byte(sum[:proofSize])
}

// seal makes a cursor.
func (s *cursorSealer) seal(associated, position []byte) string {
	proof := s.proof(associated, position)
	sealed := make([]byte, proofSize+len(position))
	copy(sealed, proof[:])
	cipher.NewCTR(s.block, proof[:]).XORKeyStream(sealed[proofSize:], position)
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// open returns the position in a cursor; false if the cursor was altered or sealed
// with other associated data.
func (s *cursorSealer) open(associated []byte, cursor string) ([]byte, bool) {
	if len(cursor) > maxCursor {
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	// The decoder skips line breaks, which would be an alteration.
	if err != nil || len(sealed) < proofSize || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(cursor) {
		return nil, false
	}
	position := make([]byte, len(sealed)-proofSize)
	cipher.NewCTR(s.block, sealed[:proofSize]).XORKeyStream(position, sealed[proofSize:])
	proof := s.proof(associated, position)
	return position, hmac.Equal(proof[:], sealed[:proofSize])
}

// appendSized appends a string so that what follows it cannot be taken for part of
// it.
func appendSized(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// listPosition is where a list continues. Lists of rows use position and id, events
// position alone; for a credit's history see historyPosition.
type listPosition struct {
	position int64
	id       string
}

func (p listPosition) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.position))
	return append(b, p.id...)
}

// parseListPosition reads what append wrote, which the cursor's proof guarantees.
func parseListPosition(b []byte) listPosition {
	position, n := binary.Uvarint(b)
	return listPosition{position: int64(position), id: string(b[n:])}
}

// historyPosition is where a reader of a credit's history is. It reads newest first,
// in passes: each goes from the newest row down to where the pass before began. The
// first pass has floor 0 and so reads everything.
type historyPosition struct {
	floor int64 // rows up to here were read in earlier passes
	top   int64 // the newest row of this pass; 0: it has not begun
	below int64 // rows from here on up were read in this pass; 0: none
}

func (p historyPosition) append(b []byte) []byte {
	for _, n := range [...]int64{p.floor, p.top, p.below} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// parseHistoryPosition reads what append wrote, which the cursor's proof guarantees.
func parseHistoryPosition(b []byte) historyPosition {
	var p historyPosition
	for _, n := range [...]*int64{&p.floor, &p.top, &p.below} {
		v, size := binary.Uvarint(b)
		*n, b = int64(v), b[max(size, 0):]
	}
	return p
}
