package answer

import (
	"bytes"
	"log/slog"
	"sync"
)

// Renderer holds what all answers of an API share.
type Renderer struct {
	docsURL string
	logger  *slog.Logger
	codecs  *codecs
	fixed   fixedValues
	buffers sync.Pool // of *bytes.Buffer
}

// NewRenderer makes a Renderer. The addresses of problem types begin with docsURL.
func NewRenderer(docsURL string, logger *slog.Logger) (*Renderer, error) {
	codecs, err := newCodecs()
	if err != nil {
		return nil, err
	}
	return &Renderer{docsURL: docsURL, logger: logger, codecs: codecs, fixed: newFixedValues()}, nil
}

// maxBuffer is the capacity up to which a buffer is used again, in bytes.
const maxBuffer = 1 << 20

// Buffer returns an empty buffer for a body.
func (r *Renderer) Buffer() *bytes.Buffer {
	b, ok := r.buffers.Get().(*bytes.Buffer)
	if !ok {
		return new(bytes.Buffer)
	}
	b.Reset()
	return b
}

// Release takes back a buffer whose bytes nothing refers to any more.
func (r *Renderer) Release(b *bytes.Buffer) {
	if b.Cap() <= maxBuffer {
		r.buffers.Put(b)
	}
}
