package answer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// StreamHead is what is known of a streamed answer before its first byte.
type StreamHead struct {
	Form   Form
	Tag    string // identifies the answer in every encoding
	Cursor string // where the list continues; sent as header field and trailer Next-Cursor
}

// Peer is the connection on which an answer is sent. It knows how much the other side has taken.
type Peer interface {
	// Taken returns how many bytes the other side has acknowledged, and how many writes have ended.
	Taken() (acknowledged, writes uint64)
	SetWriteDeadline(t time.Time) error
}

// Stream is an answer that is sent while it is made, so it needs the same memory however long it
// is. The reader must keep taking it: the stream ends if the reader takes nothing for some time.
type Stream struct {
	w       *Writer
	peer    Peer // nil: unknown
	stall   time.Duration
	until   time.Time
	control *http.ResponseController
	out     *bufio.Writer
	encoder io.WriteCloser // nil: not compressed
	release func()         // gives the encoder back
	looking *time.Timer    // looks at the peer while something is being sent

	mu                   sync.Mutex
	interrupted          bool
	sending              bool
	acknowledged, writes uint64 // of the peer, at the last look
}

// Interrupt ends the write in flight and makes all later ones fail. It may be called from another
// goroutine.
func (s *Stream) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = true
	_ = s.control.SetWriteDeadline(time.Now())
}

// deadline sets the write deadline, unless the stream was interrupted. Writers within the process
// have no deadlines. The caller holds mu.
func (s *Stream) deadline(at time.Time) {
	if !s.interrupted {
		_ = s.control.SetWriteDeadline(at)
	}
}

const (
	// sendBuffer collects the small writes of encoders, in bytes.
	sendBuffer = 32 << 10

	// piece is the most that is sent at once, in bytes. Over HTTP/2 a reader has taken something
	// when its flow control lets the server send a whole piece.
	piece = 8 << 10

	// looks is how many times within the stall time the stream looks at the peer while something
	// waits to be sent.
	looks = 8
)

// Head answers HEAD as Stream answers GET.
func (w *Writer) Head(head *StreamHead) { w.streamHead(head, w.Preferred()) }

// Stream begins an answer and sends its header at once. peer is the reader's connection. A write
// fails if the reader takes nothing for stall, or at until; between writes only until applies. The
// caller must call End to finish the answer, and Close in any case.
func (w *Writer) Stream(head *StreamHead, peer Peer, stall time.Duration, until time.Time) (*Stream, error) {
	s := &Stream{w: w, peer: peer, stall: stall, until: until, control: http.NewResponseController(w.w), release: func() {}}
	s.out = bufio.NewWriterSize(sink{s}, sendBuffer)
	best := w.Preferred()
	if best != Identity {
		encoder, release, err := w.renderer.codecs.stream(best, s.out)
		if err != nil {
			return nil, err
		}
		s.encoder, s.release = encoder, release
	}
	w.streamHead(head, best)
	// The server's read timeout would end the context of a request that is still being answered.
	_ = s.control.SetReadDeadline(time.Time{})
	if err := s.flush(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (w *Writer) streamHead(head *StreamHead, e Encoding) {
	h := w.setCommon()
	w.setOfData(h)
	h[HeaderCacheControl] = w.renderer.fixed.cacheRevalidate
	h[HeaderContentType] = []string{head.Form.ContentType()}
	h[HeaderVary] = w.vary()
	h[HeaderETag] = []string{etag(head.Tag, e)}
	h[HeaderNextCursor] = []string{head.Cursor}
	// The server sends the same value again at the end of the body.
	h[HeaderTrailer] = w.renderer.fixed.trailer
	if e != Identity {
		h[HeaderContentEncoding] = []string{e.name()}
	}
	w.Status = http.StatusOK
	w.w.WriteHeader(http.StatusOK)
}

// Write sends a piece of the body. An error means that the reader has gone or did not take it in
// time.
func (s *Stream) Write(p []byte) (n int, err error) {
	if s.encoder != nil {
		n, err = s.encoder.Write(p)
	} else {
		n, err = s.out.Write(p)
	}
	return n, sendError(err)
}

// sendError adds to err what was being done.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("send a part of an answer: %w", err)
}

// End sends what is left. The answer is complete if End returns nil.
func (s *Stream) End() error {
	var err error
	if s.encoder != nil {
		err = s.encoder.Close()
	}
	// What the server buffers until the request ends is small, and has time until s.until.
	return errors.Join(sendError(err), sendError(s.out.Flush()), s.flush())
}

// flush sends what the server has buffered. A writer that cannot flush sends it later.
func (s *Stream) flush() error {
	s.begin()
	defer s.end()
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return sendError(err)
	}
	return nil
}

// Close releases what the stream has taken. It sends nothing.
func (s *Stream) Close() {
	if s.looking != nil {
		s.looking.Stop()
	}
	s.release()
	s.release = func() {}
}

// begin starts the time in which the reader must take something.
func (s *Stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending = true
	s.extend()
	switch {
	case s.peer == nil:
	case s.looking == nil:
		s.looking = time.AfterFunc(s.stall/looks, s.look)
	default:
		s.looking.Reset(s.stall / looks)
	}
}

// end sets the deadline to s.until: over HTTP/2 a deadline that passes ends the answer even while
// nothing is being written.
func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending = false
	if s.looking != nil {
		s.looking.Stop()
	}
	s.deadline(s.until)
}

// extend gives the reader the whole stall time again and returns the new deadline. The caller holds
// mu.
func (s *Stream) extend() time.Time {
	deadline := time.Now().Add(s.stall) // not the injected clock: it is about the network
	if deadline.After(s.until) {
		deadline = s.until
	}
	s.deadline(deadline)
	return deadline
}

// look gives the reader more time if it has taken something since the last look. While the same
// write of the connection lasts, all progress is also progress of this answer. After another write,
// over HTTP/2, it may be progress of other answers only.
func (s *Stream) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sending || s.interrupted {
		return
	}
	acknowledged, writes := s.peer.Taken()
	if acknowledged != s.acknowledged && writes == s.writes {
		// Over HTTP/2 the connection has a deadline of its own.
		_ = s.peer.SetWriteDeadline(s.extend())
	}
	s.acknowledged, s.writes = acknowledged, writes
	s.looking.Reset(s.stall / looks)
}

// sink sends the bytes of a stream, piece by piece.
type sink struct{ s *Stream }

func (k sink) Write(p []byte) (sent int, err error) {
	for len(p) > 0 {
		n, err := k.send(p[:min(piece, len(p))])
		sent += n
		if err != nil {
			return sent, err
		}
		p = p[n:]
	}
	return sent, nil
}

func (k sink) send(p []byte) (n int, err error) {
	k.s.begin()
	defer k.s.end()
	n, err = k.s.w.w.Write(p)
	k.s.w.Bytes += n
	if err != nil {
		k.s.w.Err = err
	}
	return n, sendError(err)
}
