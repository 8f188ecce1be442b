package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxEntrySize bounds an entry as it comes in, in bytes (docs/contract/log.md, "Stored form").
const MaxEntrySize = 64 << 10

// MaxLineSize bounds a line of NDJSON. An entry that came in with as many bytes
// as it may have grows by its id, its publish time and its canonical form; in
// the form that the log exports, and in no other, it may come in again.
const MaxLineSize = MaxEntrySize + 1<<10

// Draft is an entry that a producer offers, its form already checked. The log
// gives it its position, and its id and publish time where they are absent.
type Draft struct {
	WorkspaceID string
	ID          string    // empty: the log assigns one
	Type        string    // one of the catalogue
	CreatedAt   time.Time // zero: the log gives the moment of appending
	Data        string    // canonical form

	publicData string
}

// A DraftError says why a draft was refused for its form.
type DraftError struct {
	Err error // FormErrors, or what is wrong with the JSON
}

// Error describes the faults.
func (e *DraftError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *DraftError) Unwrap() error { return e.Err }

// envelope is an entry as it comes in, before its data is looked at.
type envelope struct {
	workspaceID, id, typ, createdAt, data string
	hasData                               bool
}

var envelopeFields = table([]Field[envelope]{
	{Name: "workspace_id", Form: FormID, Required: true, at: func(e *envelope) any { return &e.workspaceID }},
	{Name: "id", Form: FormID, at: func(e *envelope) any { return &e.id }},
	{Name: "type", Form: FormText, Required: true, at: func(e *envelope) any { return &e.typ }},
	{Name: "created_at", Form: FormDateTime, at: func(e *envelope) any { return &e.createdAt }},
	{Name: "data", Form: FormObject, Required: true, at: func(e *envelope) any { return (*rawObject)(e) }},
})

// rawObject takes the data of an envelope as text: its form depends on the
// type, which may come after it.
type rawObject envelope

func (r *rawObject) given() bool                 { return r.hasData }
func (r *rawObject) appendGiven(b []byte) []byte { return append(b, r.data...) }
func (r *rawObject) appendAll(b []byte) []byte   { return append(b, r.data...) }

func (r *rawObject) scanStored(s *scanner) error { return r.decode(s, "", nil) }

func (r *rawObject) decode(s *scanner, _ string, _ *FormErrors) (err error) {
	r.data, err = s.skip()
	r.hasData = true
	return err
}

// DecodeDraft reads one entry as a JSON object, strictly (docs/contract/log.md, "An
// entry"). The error is a *DraftError that names every faulty field and the
// form wanted.
func DecodeDraft(line []byte) (Draft, error) {
	if len(line) > MaxLineSize {
		return Draft{}, errTooLong()
	}
	s := &scanner{b: string(line)}
	if s.peek() != '{' {
		return Draft{}, &DraftError{errors.New("want an entry: one JSON object")}
	}
	var (
		env  envelope
		errs FormErrors
	)
	if err := decodeFields(s, envelopeFields, &env, "", &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	if err := s.end(); err != nil {
		return Draft{}, &DraftError{err}
	}
	d := Draft{WorkspaceID: env.workspaceID, ID: env.id, Type: env.typ}
	d.CreatedAt, _ = ParseTime(env.createdAt)
	if env.typ != "" && env.hasData {
		if err := d.check(env.data, &errs); err != nil {
			return Draft{}, &DraftError{err}
		}
	}
	if len(errs) > 0 {
		return Draft{}, &DraftError{errs}
	}
	if len(line) > MaxEntrySize && !d.exported(line) {
		return Draft{}, errTooLong()
	}
	return d, nil
}

func errTooLong() error {
	return &DraftError{fmt.Errorf("the entry is longer than %d bytes", MaxEntrySize)}
}

// exported tells whether a line is the exported form of this very entry.
func (d *Draft) exported(line []byte) bool {
	if d.ID == "" || d.CreatedAt.IsZero() {
		return false
	}
	e := Entry{WorkspaceID: d.WorkspaceID, ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.Data}
	return string(e.AppendNDJSON(nil)) == strings.TrimRight(string(line), "\r\n")+"\n"
}

// NewDraft checks an entry that a Go program makes: data is the JSON object
// with the fields of the type. Set ID and CreatedAt on the result as needed.
func NewDraft(workspaceID, typ string, data []byte) (Draft, error) {
	var errs FormErrors
	if !IsID(workspaceID) {
		errs.add("workspace_id", faultForm, FormID.words())
	}
	if len(data) > MaxEntrySize {
		return Draft{}, &DraftError{fmt.Errorf("the data is longer than %d bytes", MaxEntrySize)}
	}
	d := Draft{WorkspaceID: workspaceID, Type: typ}
	if err := d.check(string(data), &errs); err != nil {
		return Draft{}, &DraftError{err}
	}
	if len(errs) > 0 {
		return Draft{}, &DraftError{errs}
	}
	return d, nil
}

// check reads the data by the row of the catalogue and brings it into
// canonical form.
func (d *Draft) check(data string, errs *FormErrors) error {
	t := TypeNamed(d.Type)
	if t == nil {
		errs.add("type", faultUnknown, "one of the types of the catalogue, such as invoice.recorded")
		return nil
	}
	s := &scanner{b: data}
	if s.peek() != '{' {
		errs.add("data", faultForm, FormObject.words())
		return nil
	}
	var values Data
	if err := decodeFields(s, t.Fields, &values, "data", errs); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if len(*errs) > 0 {
		return nil
	}
	d.Data = string(appendGiven(make([]byte, 0, len(data)), t.Fields, &values))
	if t.Public {
		d.publicData = t.publicData(&values)
	}
	return nil
}

// decode reads data that the log keeps.
func (t *Type) decode(data string) (*Data, error) {
	var (
		d    Data
		errs FormErrors
	)
	s := &scanner{b: data}
	if err := decodeFields(s, t.Fields, &d, "data", &errs); err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return &d, nil
}

// Genesis is the chain before position 1: SHA-256 of the workspace id.
func Genesis(workspaceID string) [sha256.Size]byte { return sha256.Sum256([]byte(workspaceID)) }

// Seal turns a draft into the entry at a position. Its ID and CreatedAt must
// have been given by then.
func (d *Draft) Seal(position int64, before [sha256.Size]byte) Entry {
	e := Entry{WorkspaceID: d.WorkspaceID, Position: position, ID: d.ID, Type: d.Type, CreatedAt: d.CreatedAt, Data: d.Data}
	e.Chain = e.ChainAfter(before)
	return e
}

// ChainAfter is the chain value that an entry must carry after the one before
// it (docs/contract/log.md, "Chain").
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

// PublicEvent is the public form of a draft whose ID and CreatedAt are given:
// what the feed and webhooks show, ids only. Empty for internal types.
func (d *Draft) PublicEvent() string {
	if d.publicData == "" {
		return ""
	}
	return publicEvent(d.ID, d.Type, d.CreatedAt, d.publicData)
}

// PublicData is the data object of the public form: ids only, whatever else
// the draft says. Empty for internal types.
func (d *Draft) PublicData() string { return d.publicData }

// PublicEvent is the public form of an entry; empty for internal types and
// for entries that this version cannot read.
func (e *Entry) PublicEvent() string {
	t, d, ok := e.read()
	if !ok || !t.Public {
		return ""
	}
	return publicEvent(e.ID, e.Type, e.CreatedAt, t.publicData(d))
}

// publicEvent writes `{"id","type","created_at","data"}` (docs/contract/log.md, "What the
// feed and webhooks show").
func publicEvent(id, typ string, createdAt time.Time, data string) string {
	b := make([]byte, 0, 128+len(data))
	b = appendString(append(b, `{"id":`...), id)
	b = appendString(append(b, `,"type":`...), typ)
	b = AppendTime(append(b, `,"created_at":"`...), createdAt)
	b = append(append(b, `","data":`...), data...)
	return string(append(b, '}'))
}

// publicData writes the data of the public form: what the entry is about and
// the reference ids it gives. Nothing else of an entry is ever looked at here.
func (t *Type) publicData(d *Data) string {
	b := make([]byte, 0, 192)
	b = appendString(append(b, `{"object_type":`...), t.Object)
	b = appendString(append(b, `,"object_id":`...), t.object(d))
	return string(append(appendReferences(b, d), '}'))
}

// appendReferences appends those of the five reference ids that are given, as
// members that follow another.
func appendReferences(b []byte, d *Data) []byte {
	for _, ref := range [...]struct{ key, value string }{
		{`,"invoice_id":`, d.InvoiceID},
		{`,"invoice_number":`, d.InvoiceNumber},
		{`,"client_id":`, d.ClientID},
		{`,"contractor_id":`, d.ContractorID},
		{`,"period":`, d.Period},
	} {
		if ref.value != "" {
			b = appendString(append(b, ref.key...), ref.value)
		}
	}
	return b
}

// AppendNDJSON appends the entry in the form that append takes, as one line.
func (e *Entry) AppendNDJSON(b []byte) []byte {
	return append(e.appendMembers(b), '}', '\n')
}

// AppendChainedNDJSON is AppendNDJSON with position and chain (hex) after the
// entry's own fields.
func (e *Entry) AppendChainedNDJSON(b []byte) []byte {
	b = e.appendMembers(b)
	b = strconv.AppendInt(append(b, `,"position":`...), e.Position, 10)
	b = append(b, `,"chain":"`...)
	b = fmt.Appendf(b, "%x", e.Chain[:])
	return append(b, '"', '}', '\n')
}

func (e *Entry) appendMembers(b []byte) []byte {
	b = appendString(append(b, `{"workspace_id":`...), e.WorkspaceID)
	b = appendString(append(b, `,"id":`...), e.ID)
	b = appendString(append(b, `,"type":`...), e.Type)
	b = AppendTime(append(b, `,"created_at":"`...), e.CreatedAt)
	b = append(b, `","data":`...)
	return append(b, e.Data...)
}
