package webhooks

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// form is the form of a webhook: as it was sent, and what is wrong with it.
type form struct {
	ID                string // empty: a new one
	Address           string
	Name, Description string
	Standard          bool // with the headers of Standard Webhooks
	All               bool
	Chosen            map[string]bool
	Groups            []label.EventGroup
	Faults            web.Faults
	Restored          bool // it was sent after its session had ended
}

func showForm(r *web.Request, status int, f *form) error {
	f.Groups = label.EventGroups()
	title := "Add webhook"
	if f.ID != "" {
		title = "Edit webhook"
	}
	return r.ShowStatus(status, "webhook-form", web.View{Title: title, Section: "webhooks", Body: f})
}

// readForm reads the form that was sent and returns the event types that it
// chooses.
func readForm(r *web.Request) (f *form, events []string) {
	f = &form{
		ID: r.Path("webhook"), Address: r.Field("address"), Name: r.Field("name"), Description: r.Field("description"),
		Standard: r.Field("standard") != "", All: r.Field("choice") == "all", Chosen: map[string]bool{}, Faults: web.Faults{},
	}
	for _, e := range r.PostForm["event"] {
		f.Chosen[e] = true
	}
	switch {
	case f.All:
		return f, []string{delivery.AllEvents}
	case len(f.Chosen) == 0:
		f.Faults["events"] = "Choose at least one event type, or all."
	case f.Chosen[delivery.AllEvents]:
		f.Faults["events"] = "Choose from the list."
	}
	for _, e := range domain.PublicTypes() {
		if f.Chosen[e] {
			events = append(events, e)
		}
	}
	return f, events
}

// restored is the form that was sent to this page after its session had ended; nil: none.
func restored(r *web.Request) *form {
	if !r.RestoreDraft() {
		return nil
	}
	f, _ := readForm(r)
	f.Faults, f.Restored = nil, true
	return f
}

// change is what the form changes of a webhook, with the event types it chooses.
func (f *form) change(events []string) delivery.Change {
	return delivery.Change{URL: &f.Address, Events: events, Name: &f.Name, Description: &f.Description, Standard: &f.Standard}
}

// MaxName is how many characters a name may have.
func (f *form) MaxName() int { return delivery.MaxName }

// MaxDescription is how many characters a description may have.
func (f *form) MaxDescription() int { return delivery.MaxDescription }

// addFaults adds what the store finds wrong with the input. It returns false for
// other errors.
func (f *form) addFaults(err error) bool {
	found := false
	for _, one := range web.Joined(err) {
		var (
			address *attempt.AddressError
			events  *delivery.EventsError
			text    *delivery.TextError
		)
		field, reason := "form", one
		switch {
		case errors.As(one, &address):
			if field = "address"; f.Address == "" {
				reason = errNoAddress
			}
		case errors.As(one, &events):
			field = "events"
		case errors.As(one, &text):
			field = text.Field
		case errors.Is(one, delivery.ErrTooManyWebhooks):
			reason = errTooMany
		default:
			continue
		}
		found = true
		if f.Faults[field] == "" {
			f.Faults[field] = label.Sentence(reason.Error())
		}
	}
	return found
}

var errNoAddress = errors.New("enter the address of your program")

var errTooMany = fmt.Errorf("a workspace can have at most %d webhooks. Delete one first", delivery.MaxWebhooks)

// newPage shows the form of a new webhook, where there can be a further one.
func newPage(store *delivery.Store) web.Handler {
	return func(r *web.Request) error {
		list, err := store.List(r.Context(), r.Session.WorkspaceID)
		if err != nil {
			return err
		}
		if len(list) >= delivery.MaxWebhooks {
			return &web.PageError{Status: http.StatusConflict, Title: "No further webhook", Text: label.Sentence(errTooMany.Error()), Back: "/webhooks"}
		}
		if f := restored(r); f != nil {
			return showForm(r, http.StatusOK, f)
		}
		return showForm(r, http.StatusOK, &form{All: true})
	}
}

// checkAddress tells while a person types whether an address will be accepted.
func (p *Pages) checkAddress(r *web.Request) error {
	fault := ""
	address := r.Query("address")
	if err := attempt.CheckAddress(address, p.Settings.Allow); err != nil && address != "" {
		fault = label.Sentence(err.Error())
	}
	return r.ShowPart("webhook-form", "address-fault", fault)
}
