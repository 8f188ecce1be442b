package pg

import (
	"encoding/binary"
	"io"
	"strings"
	"sync"
)

// The types of messages of PostgreSQL's protocol that localSettings looks at.
const (
	msgQuery, msgSync, msgParse, msgBind, msgDescribe, msgExecute = 'Q', 'S', 'P', 'B', 'D', 'E'

	msgReady, msgError, msgCancelKey          = 'Z', 'E', 'K'
	msgNotice, msgNotification, msgParameters = 'N', 'A', 'S'
)

// What a server says of its transaction when it is ready.
const (
	noTransaction = 'I'
	inTransaction = 'T'
)

// swallowed is how many messages the server answers to what localSettings adds.
const swallowed = 4

const headerSize = 5 // of a message: its type, and its length without the type

// localSettings stands between a connection and its pooler, and gives each transaction its
// settings: a connection of a pooler has those of nobody. It puts a statement that sets
// them for the transaction before the first other one, into the same round trip, and takes
// the answers to it out.
//
// Messages go in series, each of which the server ends with "ready" (ReadyForQuery). Outside
// of a transaction a series is one by itself; after BEGIN, the next series is where the
// settings go. Series that are nothing but BEGIN, COMMIT and the like, or that the server runs
// in no transaction with another statement, such as VACUUM, are left alone.
//
// It also keeps the key for cancelling statements from pgx, which then does not: PgBouncer
// before version 1.19 may end itself over a cancelled statement (its issue 801). Statements
// end by their statement_timeout.
type localSettings struct {
	r     io.Reader
	w     io.Writer
	first []byte // the messages that set the settings

	mu     sync.Mutex
	begun  bool   // the server was ready once, so messages have types; guarded by mu
	state  byte   // of the transaction, when the server was ready last; guarded by mu
	bare   bool   // the transaction has no settings yet; guarded by mu
	series []bool // those that are not answered yet: whether settings were added; guarded by mu

	sending  messages // to the server; used by Write alone
	inSeries bool     // used by Write alone

	receiving messages // from the server; used by Read alone
	kind      byte     // of the message at hand; used by Read alone
	leaveOut  bool     // the message at hand; used by Read alone
	answered  bool     // the next answer begins a series; used by Read alone
	swallow   int      // answers to leave out; used by Read alone
	rest      []byte   // read and not taken yet, in kept; used by Read alone
	buffer    []byte   // what the server sent last; used by Read alone
	kept      []byte   // what is left of it for the connection; used by Read alone
}

func newLocalSettings(r io.Reader, w io.Writer, first []byte) *localSettings {
	return &localSettings{r: r, w: w, first: first, buffer: make([]byte, 8<<10)}
}

// messages cuts a stream into messages, as much of each as is there.
type messages struct {
	header []byte // of the next message, where it came in pieces
	left   int    // of the body of the message at hand
}

// next returns the next piece of b, and what follows it: a header with what is there of
// its body, or more of that body. An incomplete header is kept, and no piece returned.
func (m *messages) next(b []byte) (piece, rest []byte, begins bool) {
	if m.left > 0 {
		n := min(m.left, len(b))
		m.left -= n
		return b[:n], b[n:], false
	}
	if len(m.header) > 0 || len(b) < headerSize {
		n := min(headerSize-len(m.header), len(b))
		m.header = append(m.header, b[:n]...)
		if len(m.header) < headerSize {
			return nil, nil, false
		}
		b = append(m.header, b[n:]...)
		m.header = nil
	}
	body := max(0, int(binary.BigEndian.Uint32(b[1:]))-4)
	n := min(body, len(b)-headerSize)
	m.left = body - n
	return b[:headerSize+n], b[headerSize+n:], true
}

// Write adds the settings to what is sent to the server.
func (s *localSettings) Write(b []byte) (int, error) {
	out := s.adding(b)
	if n, err := s.w.Write(out); err != nil {
		return min(n, len(b)), err
	}
	return len(b), nil
}

func (s *localSettings) adding(b []byte) (out []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return b
	}
	for rest := b; len(rest) > 0; {
		var piece []byte
		var begins bool
		piece, rest, begins = s.sending.next(rest)
		if begins {
			out = append(out, s.addition(piece)...)
		}
		out = append(out, piece...)
	}
	return out
}

// addition is what goes before a message, most often nothing. It needs the lock.
func (s *localSettings) addition(message []byte) (before []byte) {
	kind := message[0]
	switch kind {
	case msgQuery, msgParse, msgBind, msgDescribe, msgExecute, msgSync, 'C': // 'C' closes a statement
	default:
		return nil // data that is copied, and the end of the connection
	}
	if !s.inSeries {
		if s.wants(kind, message[headerSize:]) {
			before = s.first
			s.bare = false
		}
		s.series = append(s.series, before != nil)
	}
	s.inSeries = kind != msgQuery && kind != msgSync
	return before
}

// wants reports whether a series that begins with a message needs the settings.
func (s *localSettings) wants(kind byte, body []byte) bool {
	if len(s.first) == 0 || s.state != noTransaction && (s.state != inTransaction || !s.bare) || kind == msgSync || kind == 'C' {
		return false
	}
	if kind != msgQuery {
		return true
	}
	word := strings.ToLower(strings.TrimLeft(string(body[:min(len(body), 64)]), " \t\r\n("))
	word = word[:len(word)-len(strings.TrimLeft(word, "abcdefghijklmnopqrstuvwxyz"))]
	switch word {
	case "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", // of transactions themselves
		"vacuum", "cluster", "reindex", "checkpoint", "discard", "listen", "unlisten", "copy", "": // not after another statement
		return false
	}
	return true
}

// Read leaves the answers to the settings out of what the server sends.
func (s *localSettings) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		n, err := s.r.Read(s.buffer)
		// Rows of any number pass through the same two buffers: all of the last ones are taken.
		s.kept = s.without(s.kept[:0], s.buffer[:n])
		s.rest = s.kept
		if err != nil && len(s.rest) == 0 {
			return 0, err //nolint:wrapcheck // the driver compares it
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// without appends b to out, but for the answers to the settings.
func (s *localSettings) without(out, b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(b) > 0 {
		var (
			piece  []byte
			begins bool
		)
		if piece, b, begins = s.receiving.next(b); begins {
			s.kind = piece[0]
			s.leaveOut = s.isOwn(s.kind)
		}
		if !s.leaveOut {
			out = append(out, piece...)
		}
		if s.kind == msgReady && s.receiving.left == 0 && len(piece) > 0 {
			s.ready(piece[len(piece)-1])
		}
	}
	return out
}

// isOwn reports whether a message is one of the answers to the settings. It needs the lock.
func (s *localSettings) isOwn(kind byte) bool {
	if !s.begun {
		return kind == msgCancelKey
	}
	if kind == msgNotice || kind == msgNotification || kind == msgParameters {
		return false
	}
	if s.answered {
		s.answered = false
		if len(s.series) > 0 {
			if s.series[0] {
				s.swallow = swallowed
			}
			s.series = s.series[1:]
		}
	}
	if kind == msgError {
		s.swallow = 0 // the server leaves out the rest of the series
	}
	if s.swallow == 0 {
		return false
	}
	s.swallow--
	return true
}

// ready notes the end of a series. It needs the lock.
func (s *localSettings) ready(state byte) {
	if state == inTransaction && s.state == noTransaction {
		s.bare = true
	}
	s.begun, s.answered, s.state = true, true, state
}
