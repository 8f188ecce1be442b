package readapi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encoding is a content coding of an answer.
type encoding int

const (
	identity encoding = iota
	gzipped
	zstandard
)

func (e encoding) name() string {
	switch e {
	case gzipped:
		return "gzip"
	case zstandard:
		return "zstd"
	case identity:
	}
	return "identity"
}

// compressAbove is the size from which answers are compressed, in bytes.
const compressAbove = 1024

// accepted are the forms in which the caller takes an answer, best first; the
// last is always identity, in which small answers go whatever is accepted.
func (c *call) accepted() []encoding {
	if c.encodings == nil {
		c.encodings = acceptedEncodings(c.r.Header.Values("Accept-Encoding"))
	}
	return c.encodings
}

// acceptedEncodings reads Accept-Encoding (RFC 9110, 12.5.3). Where the caller
// likes both codings that this program knows alike, zstd comes first.
func acceptedEncodings(headers []string) []encoding {
	var (
		weights [zstandard + 1]float64
		named   [zstandard + 1]bool
		rest    float64
	)
	for _, header := range headers {
		for item := range strings.SplitSeq(header, ",") {
			name, weight := parseWeighted(item)
			switch strings.ToLower(name) {
			case "gzip", "x-gzip":
				weights[gzipped], named[gzipped] = weight, true
			case "zstd":
				weights[zstandard], named[zstandard] = weight, true
			case "*":
				rest = weight
			}
		}
	}
	accepted := make([]encoding, 0, len(weights))
	for _, e := range [...]encoding{zstandard, gzipped} {
		if !named[e] {
			weights[e] = rest
		}
		if weights[e] > 0 {
			accepted = append(accepted, e)
		}
	}
	if len(accepted) == 2 && weights[gzipped] > weights[zstandard] {
		accepted[0], accepted[1] = gzipped, zstandard
	}
	return append(accepted, identity)
}

// parseWeighted reads "name;q=0.5". A weight that is none counts as 0.
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

// codecs compress. The same bytes always give the same result, which strong
// ETags and the Content-Length of HEAD need.
type codecs struct {
	zstd  *zstd.Encoder
	gzips sync.Pool
}

// gzipLevel is where more time no longer buys much on pages of rows.
const gzipLevel = 3

func newCodecs() (*codecs, error) {
	// Without a writer the encoder serves EncodeAll, from any number of
	// goroutines, and has none of its own.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("prepare zstd: %w", err)
	}
	if _, err := gzip.NewWriterLevel(nil, gzipLevel); err != nil {
		return nil, fmt.Errorf("prepare gzip: %w", err)
	}
	return &codecs{zstd: z}, nil
}

// compress appends body in an encoding to dst.
func (c *codecs) compress(dst *bytes.Buffer, e encoding, body []byte) error {
	if e == zstandard {
		dst.Write(c.zstd.EncodeAll(body, dst.AvailableBuffer()))
		return nil
	}
	z, ok := c.gzips.Get().(*gzip.Writer)
	if ok {
		z.Reset(dst)
	} else {
		var err error
		if z, err = gzip.NewWriterLevel(dst, gzipLevel); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
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
