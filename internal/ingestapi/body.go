package ingestapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Limits of a request.
const (
	// MaxBody is how large a body may be, in bytes: as it comes, and after it was decompressed.
	MaxBody = 8 << 20
	// MaxEntries is how many entries a request may have.
	MaxEntries = 1000
)

// encodings are what Content-Encoding may say, for the header Accept-Encoding of a refusal.
const encodings = "gzip, zstd, identity"

// readBody reads a whole body and decompresses it. The error is a *problem.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	raw := io.Reader(http.MaxBytesReader(w, r.Body, MaxBody))
	in, done, err := decompress(raw, strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))))
	if err != nil {
		return nil, bodyError(err)
	}
	defer done()
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= MaxBody {
		body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(in, MaxBody+1)); err != nil {
		return nil, bodyError(err)
	}
	if body.Len() > MaxBody {
		return nil, tooLarge()
	}
	return body.Bytes(), nil
}

// decompress returns a reader of what a body means. done releases it.
func decompress(raw io.Reader, encoding string) (in io.Reader, done func(), err error) {
	switch encoding {
	case "", "identity":
		return raw, func() {}, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case "zstd":
		// A window above MaxBody serves no body that is taken.
		z, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxBody), zstd.WithDecoderMaxMemory(2*MaxBody))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return z, z.Close, nil
	}
	return nil, nil, &problem{
		Status: http.StatusUnsupportedMediaType, Code: codeUnsupportedEncoding,
		Detail: "Content-Encoding is not one that this service takes: want " + encodings + ", one of them. Nothing was appended.",
	}
}

// bodyError is the answer to a body that cannot be read.
func bodyError(err error) error {
	if p, is := errors.AsType[*problem](err); is {
		return p
	}
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{
			Status: http.StatusRequestTimeout, Code: codeTooSlow, close: true,
			Detail: fmt.Sprintf("The body did not come within %v. Nothing was appended: send fewer entries in a request, or compress it.", readTimeout),
		}
	}
	return &problem{
		Status: http.StatusBadRequest, Code: codeInvalidEntries, Cause: err, close: true,
		Detail: "The body ended early, or is not what Content-Encoding says. Nothing was appended.",
	}
}

func tooLarge() *problem {
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge, close: true,
		Detail: fmt.Sprintf("A request has at most %d entries and %d bytes, also after it was decompressed. Nothing was appended: send several requests.", MaxEntries, MaxBody),
	}
}

// line is an entry as it came: a line of NDJSON, or an element of an array.
type line struct {
	number int // from 1; of elements, their count
	text   []byte
}

// split takes a body apart: NDJSON, or a JSON array. The error is a *problem.
func split(body []byte) ([]line, error) {
	body, err := texts.Plain(body)
	if err != nil {
		return nil, &problem{Status: http.StatusBadRequest, Code: codeInvalidEntries, Detail: "The body cannot be read: " + err.Error() + ". Nothing was appended."}
	}
	divide := splitLines
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) > 0 && start[0] == '[' {
		divide = splitArray
	}
	lines, err := divide(body)
	switch {
	case err != nil:
		return nil, err
	case len(lines) == 0:
		return nil, &problem{Status: http.StatusBadRequest, Code: codeInvalidEntries, Detail: "The body has no entries: want one JSON object a line, or a JSON array of them."}
	}
	return lines, nil
}

func splitLines(body []byte) (lines []line, err error) {
	number := 0
	for text := range bytes.Lines(body) {
		number++
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if len(lines) == MaxEntries {
			return nil, tooLarge()
		}
		lines = append(lines, line{number, text})
	}
	return lines, nil
}

func splitArray(body []byte) (lines []line, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, brokenArray(1, err)
	}
	for d.More() {
		if len(lines) == MaxEntries {
			return nil, tooLarge()
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, brokenArray(len(lines)+1, err)
		}
		lines = append(lines, line{len(lines) + 1, text})
	}
	if _, err := d.Token(); err != nil {
		return nil, brokenArray(len(lines)+1, err)
	}
	if len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return nil, brokenArray(len(lines)+1, errors.New("something follows the array"))
	}
	return lines, nil
}

func brokenArray(number int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the array does not end")
	}
	return invalidEntries([]fault{{Line: number, Message: "is not JSON: " + err.Error()}}, 1)
}
