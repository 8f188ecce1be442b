package check

import (
	"encoding/hex"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Relayed is a message of a relay, as the broker holds it.
type Relayed struct {
	Workspace string
	Position  int64
	Chain     string // hex
	Line      string // the entry
}

// CheckRelayed checks that the messages of a stream, in its order, are every entry of the
// log, and in the order of the log when those are left out that came before. It returns how
// many came before.
func (l *Log) CheckRelayed(messages []Relayed, f *Findings) (repeats int) {
	next := map[string]int{} // how many entries of the workspace came
	for _, m := range messages {
		entries, at := l.Entries[m.Workspace], int(m.Position)-1
		switch {
		case at < 0 || at >= len(entries):
			f.Add(RuleRelayed, "the stream has position %d of %s, which the log does not have", m.Position, m.Workspace)
			continue
		case at > next[m.Workspace]:
			f.Add(RuleRelayed, "position %d of %s is in the stream before position %d", m.Position, m.Workspace, next[m.Workspace]+1)
		case at < next[m.Workspace]:
			repeats++
		}
		next[m.Workspace] = max(next[m.Workspace], at+1)
		if e := &entries[at]; m.Chain != hex.EncodeToString(e.Chain[:]) || m.Line != line(e) {
			f.Add(RuleRelayed, "position %d of %s is another entry in the stream: %s", m.Position, m.Workspace, m.Line)
		}
	}
	for w, entries := range l.Entries {
		if next[w] < len(entries) {
			f.Add(RuleRelayed, "the stream ends at position %d of %s, the log at %d", next[w], w, len(entries))
		}
	}
	return repeats
}

func line(e *domain.Entry) string { return strings.TrimSuffix(string(e.AppendNDJSON(nil)), "\n") }

// CheckIngested checks that the log holds the entries of an outbox, whose ids are given by
// workspace and in the outbox's order, once and in that order and no others; and that there
// are as many dead letters as messages that are no entries.
func (l *Log) CheckIngested(ids map[string][]string, malformed, dead int, f *Findings) {
	for w, want := range ids {
		entries := l.Entries[w]
		for i := range min(len(want), len(entries)) {
			if entries[i].ID != want[i] {
				f.Add(RuleIngested, "position %d of %s is %s, where the outbox has %s", i+1, w, entries[i].ID, want[i])
				break
			}
		}
		if len(entries) != len(want) {
			f.Add(RuleIngested, "the outbox has %d entries of %s, the log %d", len(want), w, len(entries))
		}
	}
	for w := range l.Entries {
		if ids[w] == nil {
			f.Add(RuleIngested, "the log has the workspace %s, which the outbox does not have", w)
		}
	}
	if malformed != dead {
		f.Add(RuleIngested, "%d messages are no entries, and %d dead letters were kept", malformed, dead)
	}
}

// CheckFollower checks that the log of a second installation is the same.
func (l *Log) CheckFollower(away *Log, f *Findings) {
	for w, entries := range l.Entries {
		there := away.Entries[w]
		if len(there) != len(entries) {
			f.Add(RuleFollower, "the second installation has %d entries of %s, the first %d", len(there), w, len(entries))
		}
		for i := range min(len(there), len(entries)) {
			if there[i].Chain != entries[i].Chain {
				f.Add(RuleFollower, "position %d of %s has another chain in the second installation", i+1, w)
				break
			}
		}
	}
	for w := range away.Entries {
		if l.Entries[w] == nil {
			f.Add(RuleFollower, "the second installation has the workspace %s, which the first does not have", w)
		}
	}
}
