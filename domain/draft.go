package domain

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// MaxEntrySize is the maximum size of an incoming entry, in bytes (docs/contract/log.md, "Stored
// form").
const MaxEntrySize = 64 << 10

// MaxLineSize is the maximum size of an NDJSON line, in bytes. Export adds the id and the publish
// time and writes the data in canonical form, so an exported entry can be longer than MaxEntrySize.
// DecodeDraft accepts such a line only if it is exactly as AppendNDJSON writes it.
const MaxLineSize = MaxEntrySize + 1<<10

// Draft is an entry offered by a producer, already checked. The log assigns its position, and its
// id and publish time if they are absent.
type Draft struct {
	WorkspaceID string
	ID          string    // empty: the log assigns one
	Type        string    // a type in the catalogue
	CreatedAt   time.Time // see IsPublishTime; zero: the log uses the time of the append
	Data        string    // canonical form; empty in a draft of a stored form

	// Salt is of the detached value. Zero: the log makes one.
	Salt Salt

	open       string // the data without the detached fields, or a stored form as it was given
	value      string // the detached fields; empty: none is given
	publicData string // empty for internal types
}

// PersonalID names an id or a number of the entry that looks like a name, an email address or a
// telephone number, with its value: ids and numbers are shown for ever. It is empty if none does.
func (d *Draft) PersonalID() string {
	e := Entry{Type: d.Type, Data: cmp.Or(d.Data, d.open)}
	if c := e.read(); c != nil {
		return c.personalID()
	}
	return ""
}

// Open returns the data without the detached fields (docs/contract/log.md, "Detached fields"). In a
// draft of a stored form, it is that form, with the commitment to a value that is not there.
func (d *Draft) Open() string { return d.open }

// Value returns the detached fields, in canonical form; empty if none is given.
func (d *Draft) Value() string { return d.value }

// Checked reports whether a function of this package made and checked the draft.
func (d *Draft) Checked() bool { return d.open != "" }

// IsStored reports whether the draft is a stored form whose detached value is not there. Only an
// append that restores takes it.
func (d *Draft) IsStored() bool { return d.Data == "" && d.open != "" }

// Entry returns the entry that the log stores for a draft that has an id, a publish time and, if it
// has a detached value, a salt.
func (d *Draft) Entry() Entry {
	e := Entry{WorkspaceID: d.WorkspaceID, ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.open}
	if d.value != "" {
		e.Value, e.Salt = d.value, d.Salt
		e.Data = withCommitment(d.open, e.Commitment())
	}
	return e
}

// A DraftError says why an entry is invalid.
type DraftError struct {
	Err error // jsonform.FieldErrors, or an error about the JSON itself
}

// Error describes the faults.
func (e *DraftError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *DraftError) Unwrap() error { return e.Err }

func errTooLong(what string) error {
	return &DraftError{fmt.Errorf("%s is longer than %d bytes", what, MaxEntrySize)}
}

// envelope is an incoming entry whose data is not decoded yet: the form of the data depends on the
// type, which may come after it.
type envelope struct {
	workspaceID, id, typ, createdAt string
	data, stored                    jsonform.Raw
	salt                            string

	// What only ledgerfeed export --chain gives.
	position jsonform.OptInt
	chain    string
}

var envelopeFields = jsonform.Define([]jsonform.Field[envelope]{
	{Name: "workspace_id", Form: FormID, Required: true, Example: `"acme"`, Doc: "The workspace that the entry belongs to.", At: func(e *envelope) any { return &e.workspaceID }},
	{Name: "id", Form: FormID, Example: `"evt_1042"`, Doc: "Unique in the workspace. An entry that the log already has is skipped, so you can append it again. Absent: append assigns one.", At: func(e *envelope) any { return &e.id }},
	{Name: "type", Form: FormText, Required: true, Doc: "What happened.", At: func(e *envelope) any { return &e.typ }},
	{Name: "created_at", Form: FormDateTime, Doc: "Publish time, for history from elsewhere: from 1970 on, not before the workspace's newest entry, at most 5 minutes ahead. Absent: now.", At: func(e *envelope) any { return &e.createdAt }},
	{Name: "data", Form: FormObject, Doc: "The fields of the type.", At: func(e *envelope) any { return &e.data }},
	{Name: "salt", Form: FormSalt, Example: `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`, Doc: "Only from an export: the salt of the fields that are kept next to the log.", At: func(e *envelope) any { return &e.salt }},
	{Name: "stored", Form: FormObject, At: func(e *envelope) any { return &e.stored }},
})

var exportedFields = jsonform.Define(envelopeFields, []jsonform.Field[envelope]{
	{Name: "position", Form: FormInteger, At: func(e *envelope) any { return &e.position }},
	{Name: "chain", Form: FormText, At: func(e *envelope) any { return &e.chain }},
})

// DecodeDraft strictly decodes one entry from a JSON object (docs/contract/log.md, "An entry"). The
// error is a *DraftError that lists every faulty field and the form it must have.
func DecodeDraft(line []byte) (Draft, error) {
	if len(line) > MaxLineSize {
		return Draft{}, errTooLong("the entry")
	}
	d, err := decodeLine(string(line), envelopeFields)
	if err == nil && len(line) > MaxEntrySize && !d.exportedAs(string(line)) {
		return Draft{}, errTooLong("the entry")
	}
	return d, err
}

// DecodeExported decodes a line that Entry.AppendNDJSON or Entry.AppendChainedNDJSON wrote. The
// error is a *DraftError.
func DecodeExported(line []byte) (Draft, error) { return decodeLine(string(line), exportedFields) }

func decodeLine(text string, fields jsonform.Fields[envelope]) (Draft, error) {
	if !jsonform.IsObject(text) {
		return Draft{}, &DraftError{errors.New("want an entry: one JSON object")}
	}
	var (
		env  envelope
		errs jsonform.FieldErrors
	)
	if err := fields.Decode(text, "", &env, &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	if env.position.Set && env.data.Set {
		env.stored = jsonform.Raw{} // it follows from the data and the salt
	}
	d := Draft{WorkspaceID: env.workspaceID, ID: env.id, Type: env.typ}
	if env.createdAt != "" {
		var ok bool
		if d.CreatedAt, ok = ParsePublishTime(env.createdAt); !ok {
			errs.WrongForm("created_at", PublishTimeDescription)
		}
	}
	if err := d.setContent(&env, &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	if errs != nil {
		return Draft{}, &DraftError{errs}
	}
	return d, nil
}

// exportedAs reports whether line is exactly what AppendNDJSON writes for this entry.
func (d *Draft) exportedAs(line string) bool {
	if d.ID == "" || d.CreatedAt.IsZero() {
		return false
	}
	e := d.Entry()
	return string(e.AppendNDJSON(nil)) == strings.TrimRight(line, "\r\n")+"\n"
}

// setContent decodes the data or the stored form of an entry. The error is for invalid JSON.
func (d *Draft) setContent(env *envelope, errs *jsonform.FieldErrors) error {
	switch {
	case !env.data.Set && !env.stored.Set:
		errs.Missing("data", FormObject.Description())
	case env.data.Set && env.stored.Set:
		errs.WrongForm("stored", "either data or stored, not both")
	case env.typ == "":
	case env.stored.Set:
		return d.setStored(env.stored.Text, errs)
	default:
		if err := d.setData(env.data.Text, errs); err != nil || *errs != nil {
			return err
		}
		if env.salt == "" {
			return nil
		}
		if d.value == "" {
			errs.WrongForm("salt", "none, because no field of the data is detached")
			return nil
		}
		d.Salt, _ = ParseSalt(env.salt) // its form is right
	}
	return nil
}

// setStored decodes a stored form whose detached value is not there.
func (d *Draft) setStored(text string, errs *jsonform.FieldErrors) error {
	k := kindNamed(d.Type)
	if k == nil {
		errs.Unknown("type", wantType(d.Type))
		return nil
	}
	open, commitment := CutCommitment(text)
	if commitment == "" || len(k.head().detached) == 0 {
		errs.WrongForm("stored", `a stored form: an object whose last member is "~", the commitment to its detached fields`)
		return nil
	}
	c, err := k.readStored(open, "", errs)
	if err != nil || *errs != nil {
		return err
	}
	// Canonical, because lines of an export escape characters at which some programs end a line.
	d.open = withCommitment(string(c.appendOpen(make([]byte, 0, len(text)))), commitment)
	d.setPublicData(k, c)
	return nil
}

func (d *Draft) setPublicData(k kind, c content) {
	if k.head().public {
		d.publicData = string(c.appendPublicData(make([]byte, 0, 192)))
	}
}

// wantType says where all types are listed, and which one is nearest (docs/contract/decisions.md, "Commands").
func wantType(typ string) string {
	want := "one of the types that ledgerfeed types lists"
	if len(typ) > maxTypeLength {
		return want
	}
	if hint := texts.DidYouMean(typ, typeNames()); hint != "" {
		return want + hint
	}
	return want + "; the nearest is " + texts.Nearest(typ, typeNames())
}

// maxTypeLength is far above the length of every type. Longer texts are not compared with them.
const maxTypeLength = 64

// NewDraft makes and checks an entry for a Go program. data is a JSON object with the fields of the
// type. Set ID and CreatedAt on the result as needed. The error is a *DraftError.
func NewDraft(workspaceID, typ string, data []byte) (Draft, error) {
	var errs jsonform.FieldErrors
	if !IsID(workspaceID) {
		errs.WrongForm("workspace_id", FormID.Description())
	}
	if len(data) > MaxEntrySize {
		return Draft{}, errTooLong("the data")
	}
	d := Draft{WorkspaceID: workspaceID, Type: typ}
	if err := d.setData(string(data), &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	if errs != nil {
		return Draft{}, &DraftError{errs}
	}
	return d, nil
}

// setData decodes the data as the catalogue defines for the type, and stores its canonical and
// public forms. It adds faulty fields to errs; the returned error is for invalid JSON.
func (d *Draft) setData(text string, errs *jsonform.FieldErrors) error {
	k := kindNamed(d.Type)
	if k == nil {
		errs.Unknown("type", wantType(d.Type))
		return nil
	}
	if !jsonform.IsObject(text) {
		errs.WrongForm("data", FormObject.Description())
		return nil
	}
	c, err := k.read(text, errs)
	if err != nil || *errs != nil {
		return err
	}
	if c.checkExact(errs); len(*errs) > 0 {
		return nil
	}
	d.Data = string(c.appendData(make([]byte, 0, len(text))))
	d.open = d.Data
	if value := c.appendValue(nil); len(value) > 0 {
		d.value = string(value)
		d.open = string(c.appendOpen(make([]byte, 0, len(d.Data))))
	}
	d.setPublicData(k, c)
	return nil
}

// PublicEvent returns what the feed and webhooks show of the draft: ids only. It is empty for
// internal types. ID and CreatedAt must be set.
func (d *Draft) PublicEvent() string {
	if d.publicData == "" {
		return ""
	}
	return publicEvent(d.ID, d.Type, d.CreatedAt, d.publicData)
}

// PublicData returns the data object of the public form; empty for internal
// types.
func (d *Draft) PublicData() string { return d.publicData }
