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
	Tag    string // names the answer in every encoding
	Cursor string // where the list goes on; header field and trailer Next-Cursor

	// Attachment is the name of the file as which a browser keeps the answer; empty: it
	// shows it.
	Attachment string
}

// Stream is an answer that is sent while it is made, so that it needs the same memory
// however long it is. Each write must be taken by the caller within a time.
type Stream struct {
	w       *Writer
	stall   time.Duration
	until   time.Time
	control *http.ResponseController
	out     *bufio.Writer
	encoder io.WriteCloser // nil: not compressed
	release func()         // gives the encoder back

	mu          sync.Mutex
	interrupted bool
}

// Interrupt ends the write that is under way, and all others. It may be called from another goroutine.
func (s *Stream) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = true
	_ = s.control.SetWriteDeadline(time.Now())
}

// deadline sets until when writes may take, unless they were interrupted.
func (s *Stream) deadline(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.interrupted {
		_ = s.control.SetWriteDeadline(at)
	}
}

// sendBuffer collects the small writes of encoders, in bytes.
const sendBuffer = 32 << 10

// Head answers HEAD as Stream answers GET.
func (w *Writer) Head(head *StreamHead) { w.streamHead(head, w.Preferred()) }

// Stream begins an answer. The header is sent at once. A write fails that the caller does
// not take within stall, or until a moment; between writes there is time until then. End must be called to finish it, Close in any
// case.
func (w *Writer) Stream(head *StreamHead, stall time.Duration, until time.Time) (*Stream, error) {
	s := &Stream{w: w, stall: stall, until: until, control: http.NewResponseController(w.w), release: func() {}}
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
	// The server's bound on reading a request would end the context of one that is still
	// being answered.
	_ = s.control.SetReadDeadline(time.Time{})
	s.extend()
	// A writer that cannot be flushed keeps the header until the first rows.
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.release()
		return nil, sendError(err)
	}
	s.rest()
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
	if head.Attachment != "" {
		h[HeaderDisposition] = []string{`attachment; filename="` + head.Attachment + `"`}
	}
	w.Status = http.StatusOK
	w.w.WriteHeader(http.StatusOK)
}

// Write sends a piece of the body. The error says that the caller has gone, or has not
// taken it in time.
func (s *Stream) Write(p []byte) (n int, err error) {
	if s.encoder != nil {
		n, err = s.encoder.Write(p)
	} else {
		n, err = s.out.Write(p)
	}
	return n, sendError(err)
}

// sendError says what was being done.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("send a part of an answer: %w", err)
}

// End sends what is left. The answer is whole if it returns nil.
func (s *Stream) End() error {
	var err error
	if s.encoder != nil {
		err = s.encoder.Close()
	}
	err = errors.Join(err, s.out.Flush())
	s.extend() // for what the server keeps until the request has ended
	return sendError(err)
}

// Close gives back what the stream has taken. It sends nothing.
func (s *Stream) Close() {
	s.release()
	s.release = func() {}
}

// extend gives the caller the time for one write. Not every writer has deadlines:
// those within the process do not.
func (s *Stream) extend() {
	deadline := time.Now().Add(s.stall) // of the network, so not of the injected clock
	if deadline.After(s.until) {
		deadline = s.until
	}
	s.deadline(deadline)
}

// rest gives what is sent next the time until the end: over HTTP/2 a deadline that passes
// ends the answer even while nothing is being written.
func (s *Stream) rest() { s.deadline(s.until) }

// sink is where the bytes of a stream go.
type sink struct{ s *Stream }

func (k sink) Write(p []byte) (int, error) {
	k.s.extend()
	n, err := k.s.w.w.Write(p)
	k.s.w.Bytes += n
	if err != nil {
		k.s.w.Err = err
	} else {
		k.s.rest()
	}
	return n, sendError(err)
}
