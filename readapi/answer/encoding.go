package answer

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Encoding is a content coding of an answer.
type Encoding int

// The encodings.
const (
	Identity Encoding = iota
	Gzip
	Zstd
)

func (e Encoding) name() string {
	switch e {
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	case Identity:
	}
	return "identity"
}

// compressAbove is the size above which answers are compressed, in bytes.
const compressAbove = 1024

// acceptedEncodings reads Accept-Encoding (RFC 9110, 12.5.3). The result is in order of preference;
// zstd comes first if the caller prefers neither. Identity is always last: small answers are sent
// in it whatever the caller accepts.
func acceptedEncodings(headers []string) []Encoding {
	var (
		weights [Zstd + 1]float64
		named   [Zstd + 1]bool
		rest    float64
	)
	for _, header := range headers {
		for item := range strings.SplitSeq(header, ",") {
			name, weight := parseWeighted(item)
			switch strings.ToLower(name) {
			case "gzip", "x-gzip":
				weights[Gzip], named[Gzip] = weight, true
			case "zstd":
				weights[Zstd], named[Zstd] = weight, true
			case "*":
				rest = weight
			}
		}
	}
	accepted := make([]Encoding, 0, len(weights))
	for _, e := range [...]Encoding{Zstd, Gzip} {
		if !named[e] {
			weights[e] = rest
		}
		if weights[e] > 0 {
			accepted = append(accepted, e)
		}
	}
	if len(accepted) == 2 && weights[Gzip] > weights[Zstd] {
		accepted[0], accepted[1] = Gzip, Zstd
	}
	return append(accepted, Identity)
}

// parseWeighted reads "name;q=0.5". A malformed weight counts as 0.
func parseWeighted(item string) (name string, weight float64) {
	name, parameters, _ := strings.Cut(item, ";")
	weight = 1
	for p := range strings.SplitSeq(parameters, ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(k, "q") {
			continue
		}
		q, err := strconv.ParseFloat(v, 64)
		if err != nil || !(q >= 0 && q <= 1) {
			q = 0
		}
		weight = q
	}
	return strings.TrimSpace(name), weight
}

// codecs compresses answers. The same bytes always give the same result, as strong ETags and the
// Content-Length of HEAD require.
type codecs struct {
	zstd  *zstd.Encoder
	gzips sync.Pool
}

// window is how far back zstd looks, in bytes. It bounds the memory of each encoder, of which there
// is one per processor and one per stream, and of clients that read an answer slowly.
const window = 1 << 20

// gzipLevel is the level above which more time hardly makes pages of rows smaller.
const gzipLevel = 3

func newCodecs() (*codecs, error) {
	// Without a writer the encoder serves EncodeAll, which any number of goroutines may call, and
	// starts no goroutines.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("prepare zstd: %w", err)
	}
	if _, err := gzip.NewWriterLevel(nil, gzipLevel); err != nil {
		return nil, fmt.Errorf("prepare gzip: %w", err)
	}
	return &codecs{zstd: z}, nil
}

// stream makes an encoder for a streamed answer. The caller must call release when done with it.
func (c *codecs) stream(e Encoding, w io.Writer) (encoder io.WriteCloser, release func(), err error) {
	if e == Zstd {
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
		if err != nil {
			return nil, nil, fmt.Errorf("prepare zstd: %w", err)
		}
		return z, func() {}, nil
	}
	z, err := c.gzip(w)
	if err != nil {
		return nil, nil, err
	}
	return z, func() { c.gzips.Put(z) }, nil
}

// gzip returns a gzip writer to w. The caller must put it back into gzips.
func (c *codecs) gzip(w io.Writer) (*gzip.Writer, error) {
	if z, ok := c.gzips.Get().(*gzip.Writer); ok {
		z.Reset(w)
		return z, nil
	}
	z, err := gzip.NewWriterLevel(w, gzipLevel)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return z, nil
}

// compress appends body in an encoding to dst.
func (c *codecs) compress(dst *bytes.Buffer, e Encoding, body []byte) error {
	if e == Zstd {
		dst.Write(c.zstd.EncodeAll(body, dst.AvailableBuffer()))
		return nil
	}
	z, err := c.gzip(dst)
	if err != nil {
		return err
	}
	defer c.gzips.Put(z)
	if _, err := z.Write(body); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}
