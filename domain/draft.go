package domain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
)

// MaxEntrySize bounds an entry as it comes in, in bytes (docs/contract/log.md,
// "Stored form").
const MaxEntrySize = 64 << 10

// MaxLineSize bounds a line of NDJSON, in bytes. An exported entry has an id, a
// publish time and canonical data that it may have come in without, so it can be
// longer than MaxEntrySize. DecodeDraft takes such a line only in exactly the
// exported form.
const MaxLineSize = MaxEntrySize + 1<<10

// Draft is an entry that a producer offers, its form already checked. The log
// assigns its position, and its id and publish time where they are absent.
type Draft struct {
	WorkspaceID string
	ID          string    // empty: the log assigns one
	Type        string    // one of the catalogue
	CreatedAt   time.Time // see IsPublishTime; zero: the log sets the time of appending
	Data        string    // canonical form

	publicData string // empty for internal types
}

// A DraftError says why an entry was refused for its form.
type DraftError struct {
	Err error // jsonform.FieldErrors, or what is wrong with the JSON
}

// Error describes the faults.
func (e *DraftError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *DraftError) Unwrap() error { return e.Err }

func errTooLong(what string) error {
	return &DraftError{fmt.Errorf("%s is longer than %d bytes", what, MaxEntrySize)}
}

// envelope is an entry as it comes in, its data not yet decoded: the data's form
// depends on the type, which may come after it.
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

// DecodeDraft reads one entry as a JSON object, strictly (docs/contract/log.md,
// "An entry"). The error is a *DraftError that names every faulty field and the
// form wanted.
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

// exportedAs reports whether AppendNDJSON writes this very entry as line.
func (d *Draft) exportedAs(line string) bool {
	if d.ID == "" || d.CreatedAt.IsZero() {
		return false
	}
	e := Entry{WorkspaceID: d.WorkspaceID, ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.Data}
	return string(e.AppendNDJSON(nil)) == strings.TrimRight(line, "\r\n")+"\n"
}

// NewDraft checks an entry that a Go program makes: data is the JSON object with
// the fields of the type. Set ID and CreatedAt on the result as needed. The error
// is a *DraftError.
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

// setData reads the data as the catalogue says for the type, and keeps its
// canonical and its public form. Faults of form are added to errs; the error is
// about invalid JSON.
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

// PublicEvent returns what the feed and webhooks show of the draft, whose ID and
// CreatedAt must be set: ids only. Empty for internal types.
func (d *Draft) PublicEvent() string {
	if d.publicData == "" {
		return ""
	}
	return publicEvent(d.ID, d.Type, d.CreatedAt, d.publicData)
}

// PublicData returns the data object of the public form; empty for internal
// types.
func (d *Draft) PublicData() string { return d.publicData }
