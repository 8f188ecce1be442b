package domain

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// Entry is one entry of the log as it is stored (docs/contract/log.md, "An
// entry").
type Entry struct {
	WorkspaceID string
	Position    int64
	ID          string
	Type        string
	CreatedAt   time.Time         // publish time, whole milliseconds, UTC
	Data        string            // stored form: without the detached fields, and with their commitment
	Chain       [sha256.Size]byte // over everything up to and including this entry

	// The detached fields and their salt; zero if the entry has none, or if they were forgotten.
	Value string
	Salt  Salt

	decoded bool    // whether Data was decoded into content
	content content // nil if Data cannot be read
}

// read decodes the data on first use. It returns nil if this version does not know the type or
// cannot read its data.
func (e *Entry) read() content {
	if e.decoded {
		return e.content
	}
	e.decoded = true
	k := kindNamed(e.Type)
	if k == nil {
		return nil
	}
	var (
		errs jsonform.FieldErrors
		c    content
		err  error
	)
	if open, commitment := CutCommitment(e.Data); commitment != "" {
		c, err = k.readStored(open, e.Value, &errs)
	} else {
		c, err = k.read(e.Data, &errs)
	}
	if err == nil && errs == nil {
		e.content = c
	}
	return e.content
}

// Object returns the object_type and the id of the object that the entry is about. Both are empty
// if this version cannot read the entry.
func (e *Entry) Object() (objectType, id string) {
	if e.read() == nil {
		return "", ""
	}
	// Canonical data begins with the id of the object.
	data := json.NewDecoder(strings.NewReader(e.Data))
	for range 3 { // {, the name of the field, its value
		token, err := data.Token()
		if err != nil {
			return "", ""
		}
		id, _ = token.(string)
	}
	return kindNamed(e.Type).head().object, id
}

// Apply folds the next entry. An entry that this version cannot read is recorded as an anomaly and
// has no other effect.
func (s *State) Apply(e *Entry) {
	f := fold{State: s, stamp: stamp{position: e.Position, at: FormatTime(e.CreatedAt)}, eventID: e.ID}
	s.Position = e.Position
	c := e.read()
	if c == nil {
		f.anomaly(Unreadable)
		return
	}
	c.apply(&f)
}

// Genesis returns the chain value before position 1: SHA-256 of the workspace id.
func Genesis(workspaceID string) [sha256.Size]byte { return sha256.Sum256([]byte(workspaceID)) }

// ChainAfter returns the chain value that the entry must have after an entry with the chain value
// before (docs/contract/log.md, "Chain").
func (e *Entry) ChainAfter(before [sha256.Size]byte) [sha256.Size]byte {
	b := make([]byte, 0, len(before)+len(e.ID)+len(e.Type)+len(e.Data)+64)
	b = append(b, before[:]...)
	b = strconv.AppendInt(b, e.Position, 10)
	b = append(append(b, '\n'), e.ID...)
	b = append(append(b, '\n'), e.Type...)
	b = AppendTime(append(b, '\n'), e.CreatedAt)
	b = append(append(b, '\n'), e.Data...)
	return sha256.Sum256(b)
}

// PublicEvent returns the public form; empty for internal types and for entries
// that this version cannot read.
func (e *Entry) PublicEvent() string {
	c := e.read()
	if c == nil || !kindNamed(e.Type).head().public {
		return ""
	}
	return publicEvent(e.ID, e.Type, e.CreatedAt, string(c.appendPublicData(make([]byte, 0, 192))))
}

// publicEvent writes `{"id","type","created_at","data"}` (docs/contract/log.md,
// "What the feed and webhooks show").
func publicEvent(id, typ string, createdAt time.Time, data string) string {
	b := make([]byte, 0, 128+len(data))
	b = jsonform.AppendString(append(b, `{"id":`...), id)
	b = jsonform.AppendString(append(b, `,"type":`...), typ)
	b = AppendTime(append(b, `,"created_at":"`...), createdAt)
	b = append(append(b, `","data":`...), data...)
	return string(append(b, '}'))
}

// AppendNDJSON appends the entry as one line that DecodeDraft accepts: with its data as it was
// appended and the salt of what is detached from it, or with the stored form if the value is not
// there. It also escapes the characters other than line feeds at which some programs end a line.
func (e *Entry) AppendNDJSON(b []byte) []byte {
	begin := len(b)
	return append(jsonform.EscapeLineEnds(e.appendMembers(b), begin), '}', '\n')
}

// AppendChainedNDJSON appends the entry as AppendNDJSON does, with its position, its chain (hex)
// and its stored form, which the chain covers. DecodeDraft does not accept position and chain. The
// texts keep their exact bytes, so only line feeds end a line.
func (e *Entry) AppendChainedNDJSON(b []byte) []byte {
	b = e.appendMembers(b)
	b = strconv.AppendInt(append(b, `,"position":`...), e.Position, 10)
	b = append(b, `,"chain":"`...)
	b = fmt.Appendf(b, "%x", e.Chain[:])
	b = append(b, '"')
	if !e.Forgotten() {
		b = append(append(b, `,"stored":`...), e.Data...)
	}
	return append(b, '}', '\n')
}

func (e *Entry) appendMembers(b []byte) []byte {
	b = jsonform.AppendString(append(b, `{"workspace_id":`...), e.WorkspaceID)
	b = jsonform.AppendString(append(b, `,"id":`...), e.ID)
	b = jsonform.AppendString(append(b, `,"type":`...), e.Type)
	b = AppendTime(append(b, `,"created_at":"`...), e.CreatedAt)
	if e.Forgotten() {
		b = append(b, `","stored":`...)
		return append(b, e.Data...)
	}
	b = append(append(b, `","data":`...), e.Whole()...)
	if e.Value != "" {
		b = append(append(b, `,"salt":"`...), e.Salt.String()...)
		b = append(b, '"')
	}
	return b
}

// testPing is the data of test.ping.
type testPing struct {
	references
	WebhookID string
}

var testPingType = define(entryType[testPing]{
	typeHead: typeHead{
		name: TypeTestPing, object: "webhook", public: true,
		when: "Somebody chose \"Send test\" on a webhook. It is sent to that webhook alone; nothing else has changed.",
	},
	fields: []jsonform.Field[testPing]{
		{Name: "webhook_id", Form: FormID, Required: true, At: func(d *testPing) any { return &d.WebhookID }},
	},
	effect: func(*fold, *testPing) {},
})

// UnknownWorkspaceError names a workspace that does not exist.
type UnknownWorkspaceError struct{ WorkspaceID string }

// Error names the workspace.
func (e *UnknownWorkspaceError) Error() string {
	return fmt.Sprintf("there is no workspace %q", e.WorkspaceID)
}
