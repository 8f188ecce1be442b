package witness

import (
	"fmt"
	"strings"
)

// Named is a witness to ask for cosignatures: its key and its address.
type Named struct {
	Key *Verifier
	URL string
}

// ID names the witness's key: its name, a plus and the hash of the key, in hex.
func (n *Named) ID() string { return n.Key.Name() + "+" + hexHash(n.Key.KeyHash()) }

// List is a list of witnesses.
type List []Named

// UnmarshalText reads LEDGERFEED_WITNESSES: witnesses as VERIFIER-KEY=ADDRESS, separated by
// commas. A key may end with an equals sign itself.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	known := map[string]bool{}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		at := max(strings.LastIndex(part, "=https://"), strings.LastIndex(part, "=http://"))
		if at < 0 {
			return fmt.Errorf("witness %d: want VERIFIER-KEY=ADDRESS, with an address such as https://witness.example.com", len(*l)+1)
		}
		key, err := ParseVerifier(part[:at])
		if err != nil {
			return fmt.Errorf("witness %d: %w", len(*l)+1, err)
		}
		n := Named{key, part[at+1:]}
		if err := CheckURL(n.URL); err != nil {
			return fmt.Errorf("witness %d: %w", len(*l)+1, err)
		}
		if known[n.ID()] {
			return fmt.Errorf("witness %d: the key %s is given twice", len(*l)+1, n.ID())
		}
		known[n.ID()] = true
		*l = append(*l, n)
	}
	return nil
}
