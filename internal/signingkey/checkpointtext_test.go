package signingkey_test

import (
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

const root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="

// TestEachCheckpointHasOneText: what is read is written the same, and no other text is read.
func TestEachCheckpointHasOneText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"example.com/log\n0\n" + root + "\n",
		"api.example.com/acme/events\n20852163\n" + root + "\nposition 90412\nchain " + root + "\n",
	} {
		c, err := signingkey.ParseCheckpointText(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if c.String() != text {
			t.Errorf("%q is written as %q", text, c.String())
		}
	}
	for _, text := range []string{
		"", "\n", "o\n1\n" + root, "o\n1\n", "o\n1\n\n" + root + "\n", "\n1\n" + root + "\n", "o\n01\n" + root + "\n", "o\n+1\n" + root + "\n", "o\n-1\n" + root + "\n",
		"o\n1 \n" + root + "\n", "o\n9223372036854775808\n" + root + "\n", "o\n1\n" + root[:43] + "\n", "o\n1\n" + strings.Replace(root, "I=", "J=", 1) + "\n",
		"o\n1\nAAAA\n", "o\n1\n" + root + "\n\nposition 1\n", "o\n1\n" + root + "\r\n",
	} {
		if c, err := signingkey.ParseCheckpointText(text); err == nil {
			t.Errorf("%q is read as %+v", text, c)
		}
	}
}

func FuzzParseCheckpointText(f *testing.F) {
	f.Add("example.com/log\n7\n" + root + "\nposition 9\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := signingkey.ParseCheckpointText(text); err == nil && c.String() != text {
			t.Errorf("%q is written as %q", text, c.String())
		}
	})
}
