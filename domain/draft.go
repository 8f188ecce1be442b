package domain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
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
	Data        string    // canonical form

	publicData string // empty for internal types
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
	data                            jsonform.Raw
}

var envelopeFields = jsonform.Define([]jsonform.Field[envelope]{
	{Name: "workspace_id", Form: FormID, Required: true, At: func(e *envelope) any { return &e.workspaceID }},
	{Name: "id", Form: FormID, At: func(e *envelope) any { return &e.id }},
	{Name: "type", Form: FormText, Required: true, At: func(e *envelope) any { return &e.typ }},
	{Name: "created_at", Form: FormDateTime, At: func(e *envelope) any { return &e.createdAt }},
	{Name: "data", Form: FormObject, Required: true, At: func(e *envelope) any { return &e.data }},
})

// DecodeDraft strictly decodes one entry from a JSON object (docs/contract/log.md, "An entry"). The
// error is a *DraftError that lists every faulty field and the form it must have.
func DecodeDraft(line []byte) (Draft, error) {
	if len(line) > MaxLineSize {
		return Draft{}, errTooLong("the entry")
	}
	text := string(line)
	if !jsonform.IsObject(text) {
		return Draft{}, &DraftError{errors.New("want an entry: one JSON object")}
	}
	var (
		env  envelope
		errs jsonform.FieldErrors
	)
	if err := envelopeFields.Decode(text, "", &env, &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	d := Draft{WorkspaceID: env.workspaceID, ID: env.id, Type: env.typ}
	if env.createdAt != "" {
		var ok bool
		if d.CreatedAt, ok = ParsePublishTime(env.createdAt); !ok {
			errs.WrongForm("created_at", PublishTimeDescription)
		}
	}
	if env.typ != "" && env.data.Set {
		if err := d.setData(env.data.Text, &errs); err != nil {
			return Draft{}, &DraftError{err}
		}
	}
	if errs != nil {
		return Draft{}, &DraftError{errs}
	}
	if len(line) > MaxEntrySize && !d.exportedAs(text) {
		return Draft{}, errTooLong("the entry")
	}
	return d, nil
}

// exportedAs reports whether line is exactly what AppendNDJSON writes for this entry.
func (d *Draft) exportedAs(line string) bool {
	if d.ID == "" || d.CreatedAt.IsZero() {
		return false
	}
	e := Entry{WorkspaceID: d.WorkspaceID, ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.Data}
	return string(e.AppendNDJSON(nil)) == strings.TrimRight(line, "\r\n")+"\n"
}

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
		errs.Unknown("type", "one of the types of the catalogue, such as invoice.recorded")
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
	if k.head().public {
		d.publicData = string(c.appendPublicData(make([]byte, 0, 192)))
	}
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
