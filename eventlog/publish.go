package eventlog

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// publishedEntry is an entry in the JSON text that log_publish takes.
type publishedEntry struct {
	Index     int     `json:"index"` // of the draft in the call
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	CreatedAt *string `json:"created_at,omitempty"`
	Open      string  `json:"open"`
	Public    *string `json:"public,omitempty"`
	Value     *string `json:"value,omitempty"`
	Salt      string  `json:"salt,omitempty"` // hex
}

// PublishQuery returns a statement, and its arguments, that appends drafts to one workspace: all of
// them or none. If the log refuses one, the statement fails and aborts its transaction; see
// AppendError. Any PostgreSQL driver can send it, because the entries are one JSON text. The commit
// notifies subscribers.
func PublishQuery(workspaceID string, now time.Time, drafts []domain.Draft) (sql string, args []any, err error) {
	if drafts, err = checked(drafts, false); err != nil {
		return "", nil, err
	}
	batches, err := group(drafts, "")
	if err != nil {
		return "", nil, err
	}
	entries := []publishedEntry{}
	for i := range batches {
		if batches[i].workspaceID != workspaceID {
			return "", nil, fmt.Errorf("publish to %s: an entry is of workspace %s", workspaceID, batches[i].workspaceID)
		}
		entries = batches[i].published()
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return "", nil, fmt.Errorf("write the entries of %s as JSON: %w", workspaceID, err)
	}
	return `SELECT log_publish($1, $2, $3)`, []any{workspaceID, now, string(text)}, nil
}

func (b *draftBatch) published() []publishedEntry {
	entries := make([]publishedEntry, len(b.ids))
	for i := range entries {
		entries[i] = publishedEntry{
			Index: b.indexes[i][0], ID: b.ids[i], Type: b.types[i], Open: b.opens[i], Public: b.publics[i],
			Value: b.values[i], Salt: hex.EncodeToString(b.salts[i]),
		}
		if at := b.created[i]; at != nil {
			text := domain.FormatTime(*at)
			entries[i].CreatedAt = &text
		}
	}
	return entries
}
