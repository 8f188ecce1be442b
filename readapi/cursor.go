package readapi

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// cursorSealer turns positions in lists into cursors. A cursor is a sealed position: nobody can
// read or alter it, and it opens only with the associated data that it was sealed with
// (docs/contract/decisions.md, "Responses").
//
// The encryption is deterministic: an HMAC over the associated data and the position is both the
// proof and the cipher's initial counter. So the same position with the same associated data gives
// the same cursor on every instance, as the strong ETag of a page requires.
type cursorSealer struct {
	mac   *keyedHash
	block cipher.Block
}

const (
	proofSize = 16
	// maxCursor is the longest cursor that open decodes; a valid one has at most 143 characters.
	maxCursor = 512
	// cursorForm is the version of a cursor's content. It is part of the names that the keys are
	// derived from, so a cursor of another version does not open.
	cursorForm = " 4"
)

// newCursorSealer makes a sealer that uses key.
func newCursorSealer(key []byte) (*cursorSealer, error) {
	block, err := aes.NewCipher(deriveKey(key, "cursor cipher"+cursorForm))
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher of cursors: %w", err)
	}
	return &cursorSealer{mac: newKeyedHash(deriveKey(key, "cursor proof"+cursorForm)), block: block}, nil
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
	// The decoder skips line breaks, but a cursor with line breaks was altered.
	if err != nil || len(sealed) < proofSize || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(cursor) {
		return nil, false
	}
	position := make([]byte, len(sealed)-proofSize)
	cipher.NewCTR(s.block, sealed[:proofSize]).XORKeyStream(position, sealed[proofSize:])
	proof := s.proof(associated, position)
	return position, hmac.Equal(proof[:], sealed[:proofSize])
}

// appendSized appends a string after its length, so that nothing that follows can be taken for part
// of it.
func appendSized(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendMark appends a mark of the log, which shows later whether the log is still the same.
func appendMark(b []byte, m eventlog.Mark) []byte {
	b = binary.AppendUvarint(b, uint64(m.Position))
	return append(b, m.Chain[:]...)
}

// cutMark reads a mark that appendMark wrote and returns the rest. The cursor's proof guarantees
// that the mark is there.
func cutMark(b []byte) (eventlog.Mark, []byte) {
	position, n := binary.Uvarint(b)
	size := n + len(eventlog.Mark{}.Chain)
	return eventlog.NewMark(int64(position), b[n:size]), b[size:]
}

// diverged returns the answer to a cursor whose log the database no longer holds: an older backup
// was restored, or a server without the last commits took over (docs/contract/decisions.md,
// "Responses"). again tells the caller what to read again.
func diverged(again string) error {
	return answer.WrongCursor(answer.CodeCursorReset, "was given for data that the service no longer holds: it went back to an "+
		"earlier state (a backup was restored, or a standby without the last changes took over), and other entries may have taken the place of those "+
		"that you have read; "+again)
}

// listPosition is where a list of rows continues. A row moves to a later place when it changes, so
// what was read reflects the log up to the visible position of the last page. mark is that
// position: if the log went back to before it, rows that change afterwards can appear at places
// that the reader has already passed.
type listPosition struct {
	position int64
	id       string // empty: before the first row at position
	mark     eventlog.Mark
}

func (p listPosition) append(b []byte) []byte {
	b = appendMark(b, p.mark)
	b = binary.AppendUvarint(b, uint64(p.position))
	return append(b, p.id...)
}

// parseListPosition reads what append wrote. The cursor's proof guarantees that it is valid.
func parseListPosition(b []byte) listPosition {
	mark, b := cutMark(b)
	position, n := binary.Uvarint(b)
	return listPosition{position: int64(position), id: string(b[n:]), mark: mark}
}

// seen moves the mark to the visible position of the page just read, unless the read models are
// behind the reader.
func (p *listPosition) seen(visible eventlog.Mark) {
	if visible.Position > p.mark.Position {
		p.mark = visible
	}
}

// pass moves the position past everything visible, including rows that the reader may not see.
func (p *listPosition) pass(visible int64) {
	if visible >= p.position {
		p.position, p.id = visible+1, ""
	}
}

// historyPosition is a reader's place in a credit's history. The reader goes newest first, in
// passes: each runs from the position that is visible when it begins down to where the previous
// pass began. The first pass has floor 0, so it reads everything.
type historyPosition struct {
	floor int64 // earlier passes read the rows up to here
	top   int64 // this pass reads the rows up to here; 0: it has not begun
	below int64 // this pass has read the rows from here on up; 0: none
	chain [8]byte
}

func (p historyPosition) append(b []byte) []byte {
	b = appendMark(b, p.mark())
	for _, n := range [...]int64{p.floor, p.top, p.below} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// mark returns the highest position that was read, with its chain.
func (p historyPosition) mark() eventlog.Mark {
	return eventlog.Mark{Position: max(p.floor, p.top), Chain: p.chain}
}

// begin begins a pass, unless one has begun.
func (p *historyPosition) begin(visible eventlog.Mark) {
	if p.top == 0 {
		if visible.Position > p.floor {
			p.chain = visible.Chain
		}
		p.top = max(p.floor, visible.Position)
	}
}

// end ends a pass.
func (p *historyPosition) end() { *p = historyPosition{floor: p.top, chain: p.chain} }

// parseHistoryPosition reads what append wrote. The cursor's proof guarantees that it is valid.
func parseHistoryPosition(b []byte) historyPosition {
	mark, b := cutMark(b)
	p := historyPosition{chain: mark.Chain}
	for _, n := range [...]*int64{&p.floor, &p.top, &p.below} {
		v, size := binary.Uvarint(b)
		*n, b = int64(v), b[max(size, 0):]
	}
	return p
}

// SharedCursorKey returns the key for Config.CursorKey that all instances on a
// database share. The first instance makes it.
func SharedCursorKey(ctx context.Context, pool pg.DB) ([]byte, error) {
	fresh := make([]byte, cursorKeySize)
	if _, err := rand.Read(fresh); err != nil {
		return nil, fmt.Errorf("make the key of cursors: %w", err)
	}
	_, err := pool.Exec(ctx, `
		INSERT INTO service_key (workspace_id, name, value) VALUES ('*', 'cursor', $1) ON CONFLICT DO NOTHING`, fresh)
	if err != nil {
		return nil, fmt.Errorf("store the key of cursors: %w", err)
	}
	var key []byte
	err = pool.QueryRow(ctx, `SELECT value FROM service_key WHERE workspace_id = '*' AND name = 'cursor'`).Scan(&key)
	if err != nil {
		return nil, fmt.Errorf("read the key of cursors: %w", err)
	}
	return key, nil
}

// WorkspaceCursorKey derives the key for one workspace's cursors from Config.CursorKey. A database
// that the workspace moves to gets this key, so that cursors continue to work there. It cannot
// forge cursors of other workspaces with it (docs/operations/moving.md).
func WorkspaceCursorKey(key []byte, workspaceID string) []byte {
	return deriveKey(key, "cursors of "+workspaceID)
}

// newWorkspaceSealer makes the sealer for a workspace's key of 32 bytes.
func newWorkspaceSealer(key []byte) *cursorSealer {
	s, err := newCursorSealer(key)
	if err != nil {
		panic(fmt.Sprintf("a derived key of 32 bytes is none: %v", err))
	}
	return s
}

// maxWorkspaceSealers is how many sealers are kept, about 1 KiB each.
const maxWorkspaceSealers = 10_000

// workspaceSealers caches sealers by workspace, because making one costs as much as sealing ten
// cursors. It is safe for concurrent use.
type workspaceSealers struct {
	key []byte

	mu sync.RWMutex
	by map[string]*cursorSealer
}

func newWorkspaceSealers(key []byte) *workspaceSealers {
	return &workspaceSealers{key: key, by: map[string]*cursorSealer{}}
}

// of returns the sealer of a workspace.
func (w *workspaceSealers) of(workspaceID string) *cursorSealer {
	w.mu.RLock()
	s := w.by[workspaceID]
	w.mu.RUnlock()
	if s != nil {
		return s
	}
	s = newWorkspaceSealer(WorkspaceCursorKey(w.key, workspaceID))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) >= maxWorkspaceSealers {
		clear(w.by) // sealers in use are made again
	}
	w.by[workspaceID] = s
	return s
}

// keyedHash is HMAC-SHA-256 under one key. It reuses hashes, because setting one up with the key
// costs as much as hashing a short text.
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

// deriveKey derives a key for one purpose from another key.
func deriveKey(key []byte, purpose string) []byte {
	sum := newKeyedHash(key).sum([]byte("ledgerfeed " + purpose))
	return sum[:]
}

// associatedData returns what a cursor is tied to: the workspace, the endpoint with the id in its
// path, and every other parameter that was given. A parameter that was not given adds nothing, so
// cursors stay valid when endpoints get more parameters. The key is not part of it: the cursor
// itself says what the key could see.
func (q *request) associatedData() []byte {
	b := make([]byte, 0, 128)
	b = appendSized(b, q.key.WorkspaceID)
	b = appendSized(b, q.endpoint.Path)
	b = appendSized(b, q.pathID)
	for i := range q.endpoint.Params {
		if i != q.endpoint.cursor && q.params.has(i) {
			b = appendSized(b, q.endpoint.Params[i].Name)
			b = appendSized(b, q.params.get(i))
		}
	}
	return b
}

// openCursor opens the request's cursor. saw is what the key that got the cursor could see. ok is
// false if the cursor does not belong to the request.
func (q *request) openCursor() (saw visibility, position []byte, ok bool) {
	cursor := q.params.get(q.endpoint.cursor)
	associated := q.associatedData()
	opened, ok := q.api.cursors.of(q.key.WorkspaceID).open(associated, cursor)
	if !ok && q.key.Move != nil {
		for _, key := range q.key.Move.CursorKeys {
			if opened, ok = newWorkspaceSealer(key).open(associated, cursor); ok {
				break
			}
		}
	}
	if !ok || len(opened) == 0 {
		return visibility{}, nil, false
	}
	return parseVisibility(opened[0]), opened[1:], true
}

// position returns the position in the request's cursor, which checkParams has found valid; nil:
// there is no cursor.
func (q *request) position() []byte {
	_, position, _ := q.openCursor()
	return position
}

// cursor seals the position where the request's list continues, together with what its key could
// see.
func (q *request) cursor(position []byte) string {
	sealed := append([]byte{q.endpoint.shows(q.visible).code()}, position...)
	return q.api.cursors.of(q.key.WorkspaceID).seal(q.associatedData(), sealed)
}
