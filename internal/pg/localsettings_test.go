package pg

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
)

// TestRowsPassInTheSameMemory: what a server sends reaches the connection as it is, and
// takes no more memory the more of it there is. The test is not parallel, because it
// measures the process.
func TestRowsPassInTheSameMemory(t *testing.T) {
	const total = 64 << 20
	row := append(binary.BigEndian.AppendUint32([]byte{'D'}, 1004), bytes.Repeat([]byte{'x'}, 1000)...)
	ready := []byte{'Z', 0, 0, 0, 5, noTransaction}
	sent := io.MultiReader(bytes.NewReader(ready), io.LimitReader(&endless{text: row}, total))
	s := newLocalSettings(sent, io.Discard, nil)
	got, read, want := make([]byte, 32<<10), 0, endless{text: row}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for head := len(ready); ; {
		n, err := s.Read(got)
		part := got[min(head, n):n]
		head -= min(head, n)
		if !want.next(part) {
			t.Fatalf("the %d bytes after %d are not what was sent", len(part), read)
		}
		read += len(part)
		if err != nil {
			break
		}
	}
	runtime.ReadMemStats(&after)
	if read != total {
		t.Errorf("%d bytes passed, want %d", read, total)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > total/8 {
		t.Errorf("%d bytes took %d of memory", total, took)
	}
}

// endless is a text again and again.
type endless struct {
	text []byte
	at   int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// next reports whether a text is what comes next.
func (e *endless) next(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(e.text)-e.at)
		if !bytes.Equal(b[:n], e.text[e.at:e.at+n]) {
			return false
		}
		e.at = (e.at + n) % len(e.text)
		b = b[n:]
	}
	return true
}
