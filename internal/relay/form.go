package relay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Form says in which form an entry is sent.
type Form string

// The forms.
const (
	// FormPublic sends the public form, byte for byte as /v1/events and webhooks have it
	// (docs/contract/log.md, "What the feed and webhooks show"). It does not send internal entries.
	FormPublic Form = "public"

	// FormEntries sends every entry whole, as a line that ledgerfeed append takes, with amounts and
	// names.
	FormEntries Form = "entries"
)

// UnmarshalText reads a setting.
func (f *Form) UnmarshalText(text []byte) error {
	switch Form(text) {
	case FormPublic, FormEntries:
		*f = Form(text)
		return nil
	}
	return fmt.Errorf("there is no form %q: want %s or %s", text, FormPublic, FormEntries)
}

// Options are what a relay's address says in addition to its broker.
type Options struct {
	Name     string // whose checkpoints it uses: with another name it begins at the first entry
	Form     Form
	Envelope Envelope
}

// CutOptions takes the parameters name, form and envelope out of an address. The error does not
// show passwords.
func CutOptions(address string) (o Options, rest string, err error) {
	o = Options{Name: "relay", Form: FormPublic, Envelope: EnvelopeNone}
	set := map[string]func(string) error{}
	for name, read := range map[string]func([]byte) error{"name": o.setName, "form": o.Form.UnmarshalText, "envelope": o.Envelope.UnmarshalText} {
		set[name] = func(value string) error {
			if err := read([]byte(value)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	rest, err = CutParams(address, set)
	return o, rest, err
}

func (o *Options) setName(text []byte) error {
	if o.Name = string(text); !domain.IsID(o.Name) {
		return errors.New("want 1 to 64 of A-Z a-z 0-9 _ -")
	}
	return nil
}

// Envelope says what wraps the form.
type Envelope string

// The envelopes.
const (
	EnvelopeNone        Envelope = "none"
	EnvelopeCloudEvents Envelope = "cloudevents" // CloudEvents 1.0, JSON format, structured content mode
)

// UnmarshalText reads a setting.
func (e *Envelope) UnmarshalText(text []byte) error {
	switch Envelope(text) {
	case EnvelopeNone, EnvelopeCloudEvents:
		*e = Envelope(text)
		return nil
	}
	return fmt.Errorf("there is no envelope %q: want %s or %s", text, EnvelopeNone, EnvelopeCloudEvents)
}

// cloudEvent is an event in CloudEvents' JSON format, without its data. source and id
// together are unique. The last two are extension attributes.
type cloudEvent struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	WorkspaceID     string `json:"workspaceid"`
	Position        string `json:"position"` // decimal: CloudEvents' integers have 32 bits
}

const (
	contentJSON       = "application/json"
	contentCloudEvent = "application/cloudevents+json"
)

// format turns entries into messages.
type format struct {
	form     Form
	envelope Envelope
	source   string // the address of the installation, for envelopes
}

// message makes the message for an entry; nil: the entry is not sent. public is the entry's public
// form; empty: it has none.
func (f *format) message(e *domain.Entry, public string) (*message.Message, error) {
	payload := []byte(public)
	if f.form == FormEntries {
		payload = e.AppendNDJSON(nil)
		payload = payload[:len(payload)-1] // without the line feed
	} else if public == "" {
		return nil, nil
	}
	content := contentJSON
	if f.envelope == EnvelopeCloudEvents {
		var err error
		if payload, err = f.wrap(e, payload); err != nil {
			return nil, err
		}
		content = contentCloudEvent
	}
	msg := message.NewMessage(e.ID, payload)
	msg.Metadata.Set(MetadataWorkspaceID, e.WorkspaceID)
	msg.Metadata.Set(MetadataType, e.Type)
	msg.Metadata.Set(MetadataPosition, strconv.FormatInt(e.Position, 10))
	msg.Metadata.Set(MetadataCreatedAt, domain.FormatTime(e.CreatedAt))
	msg.Metadata.Set(MetadataContentType, content)
	if f.form == FormEntries {
		msg.Metadata.Set(MetadataChain, hex.EncodeToString(e.Chain[:]))
	}
	return msg, nil
}

// wrap puts a JSON payload into an envelope without changing a byte of it.
func (f *format) wrap(e *domain.Entry, payload []byte) ([]byte, error) {
	text, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: f.source + "/" + e.WorkspaceID, Type: e.Type, Time: domain.FormatTime(e.CreatedAt),
		DataContentType: contentJSON, WorkspaceID: e.WorkspaceID, Position: strconv.FormatInt(e.Position, 10),
	})
	if err != nil {
		return nil, fmt.Errorf("write the envelope of entry %s: %w", e.ID, err)
	}
	text = append(text[:len(text)-1], `,"data":`...)
	return append(append(text, payload...), '}'), nil
}
