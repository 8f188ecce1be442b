package texts_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// inUTF16 is a text as Windows writes it.
func inUTF16(text string, low, high int, marked bool) string {
	if marked {
		text = "\ufeff" + text
	}
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		pair := [2]byte{}
		pair[low], pair[high] = byte(unit), byte(unit>>8)
		b = append(b, pair[:]...)
	}
	return string(b)
}

func TestTextsOfWindows(t *testing.T) {
	t.Parallel()
	const refused = "\x00"
	for text, want := range map[string]string{
		"":                         "",
		"a":                        "a",
		"ab\ncd\n":                 "ab\ncd\n",
		"\ufeff":                   "",
		"\ufeffa":                  "a",
		"\ufeff{\"ż\":1}\n":        "{\"ż\":1}\n",
		"\ufeff\ufeffa":            "\ufeffa", // the second is text
		"a\ufeff":                  "a\ufeff",
		"ï":                        "ï",
		"\xef":                     "\xef",
		"\xef\xbb":                 "\xef\xbb",
		"\xef\xbbx":                "\xef\xbbx",
		"\xef\xbe\xbf":             "\xef\xbe\xbf",
		strings.Repeat("x", 70000): strings.Repeat("x", 70000),
		inUTF16("{}", 0, 1, true):  refused,
		inUTF16("{}", 1, 0, true):  refused,
		inUTF16("{}", 0, 1, false): refused,
		inUTF16("{}", 1, 0, false): refused,
		inUTF16("", 0, 1, true):    refused,
	} {
		plain, err := texts.Plain([]byte(text))
		if want == refused != errors.Is(err, texts.ErrUTF16) || err == nil && string(plain) != want {
			t.Errorf("%.20q: %.20q, %v", text, plain, err)
		}
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text))} {
			read, err := io.ReadAll(texts.NewReader(in))
			if want == refused != errors.Is(err, texts.ErrUTF16) || err == nil && string(read) != want {
				t.Errorf("%.20q, %s: %.20q, %v", text, name, read, err)
			}
		}
	}
}

// TestAReaderDoesNotWaitForMore: the first line of a pipe is read when it is there.
func TestAReaderDoesNotWaitForMore(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	go func() { _, _ = in.Write([]byte("{}\n")) }()
	line := make([]byte, 100)
	n, err := texts.NewReader(out).Read(line)
	if err != nil || n == 0 || line[0] != '{' {
		t.Errorf("%q, %v", line[:n], err)
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(name, []byte(inUTF16("a", 0, 1, true)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := texts.ReadFile(name); !errors.Is(err, texts.ErrUTF16) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	if _, err := texts.ReadFile(name + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
