package watermillsql

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Metadata of messages that stand for entries. The log stores no other metadata.
const (
	MetadataType        = "type"         // the entry's type; required to publish
	MetadataCreatedAt   = "created_at"   // the publish time; optional to publish, for history
	MetadataPosition    = "position"     // decimal; set on messages read, ignored when published
	MetadataWorkspaceID = "workspace_id" // set on messages read, ignored when published

	// MetadataChain is the chain value, in hex; set on messages read, ignored when published. A
	// consumer that stores positions elsewhere should store the chain with them, and compare it
	// with the log's when it continues.
	MetadataChain = "chain"
)

// Faults of messages outside their payload.
var (
	errMessageID        = errors.New("the message's UUID is the entry's id: want 1 to 64 of A-Z a-z 0-9 _ -")
	errMessageCreatedAt = errors.New("metadata created_at has the wrong form: want " + domain.PublishTimeDescription)
)

// draftOf reads a message as an entry of the workspace. A message without UUID
// gets its id from the log. The error wraps a *domain.DraftError.
func draftOf(workspaceID string, msg *message.Message) (domain.Draft, error) {
	d, err := domain.NewDraft(workspaceID, msg.Metadata.Get(MetadataType), msg.Payload)
	if err != nil {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, err)
	}
	if msg.UUID != "" && !domain.IsID(msg.UUID) {
		return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageID})
	}
	d.ID = msg.UUID
	if text, given := msg.Metadata[MetadataCreatedAt]; given {
		at, ok := domain.ParsePublishTime(text)
		if !ok {
			return domain.Draft{}, fmt.Errorf("message %q: %w", msg.UUID, &domain.DraftError{Err: errMessageCreatedAt})
		}
		d.CreatedAt = at
	}
	return d, nil
}

// messageOf makes a message from an entry.
func messageOf(e *domain.Entry) *message.Message {
	msg := message.NewMessage(e.ID, message.Payload(e.Whole()))
	msg.Metadata.Set(MetadataType, e.Type)
	msg.Metadata.Set(MetadataCreatedAt, domain.FormatTime(e.CreatedAt))
	msg.Metadata.Set(MetadataPosition, strconv.FormatInt(e.Position, 10))
	msg.Metadata.Set(MetadataWorkspaceID, e.WorkspaceID)
	msg.Metadata.Set(MetadataChain, hex.EncodeToString(e.Chain[:]))
	return msg
}
