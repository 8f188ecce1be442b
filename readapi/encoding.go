package readapi

import (
	"bytes"
	"fmt"
	"slices"
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

// acceptedEncodings reads Accept-Encoding (RFC 9110, 12.5.3): the codings that
// this program knows and the caller accepts, best first. Where the caller likes
// both alike, zstd comes first.
func acceptedEncodings(headers []string) []encoding {
	if len(headers) == 0 {
		return nil
	}
	weights := map[encoding]float64{}
	rest, hasRest := 0.0, false
	for item := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, weight := parseWeighted(item)
		switch strings.ToLower(name) {
		case "gzip", "x-gzip":
			weights[gzipped] = weight
		case "zstd":
			weights[zstandard] = weight
		case "*":
			rest, hasRest = weight, true
		}
	}
	accepted := make([]encoding, 0, 2)
	for _, e := range [...]encoding{zstandard, gzipped} {
		weight, named := weights[e]
		if !named && hasRest {
			weights[e], weight = rest, rest
		}
		if weight > 0 {
			accepted = append(accepted, e)
		}
	}
	slices.SortStableFunc(accepted, func(a, b encoding) int {
		switch {
		case weights[a] > weights[b]:
			return -1
		case weights[a] < weights[b]:
			return 1
		}
		return 0
	})
	return accepted
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
