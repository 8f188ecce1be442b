package witness

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// Logs are the verifier keys of each log that a witness knows, by the log's origin, which
// is the name of its keys.
type Logs map[string][]note.Verifier

// ParseLogs reads verifier keys, one a line. Several of one name are those of one log, such
// as while it changes its key. Blank lines and those that begin with # are passed over. The
// error names the line.
func ParseLogs(text string) (Logs, error) {
	if _, err := signingkey.ParseVerifiers(text); err != nil {
		return nil, err
	}
	logs := Logs{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("read a verifier key: %w", err)
		}
		have := logs[key.Name()]
		known := false
		for _, other := range have {
			known = known || other.KeyHash() == key.KeyHash()
		}
		if !known {
			logs[key.Name()] = append(have, key)
		}
	}
	return logs, nil
}
