package webhooks

import (
	"errors"
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// form is the form of a webhook: as it was sent, and what is wrong with it.
type form struct {
	ID      string // empty: a new one
	Address string
	All     bool
	Chosen  map[string]bool
	Groups  []label.EventGroup
	Faults  map[string]string
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
	f = &form{ID: r.Path("webhook"), Address: r.Field("address"), All: r.Field("choice") == "all", Chosen: map[string]bool{}, Faults: map[string]string{}}
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

// addFaults adds what the store finds wrong with the input. It returns false for
// other errors.
func (f *form) addFaults(err error) bool {
	var (
		address *attempt.AddressError
		events  *delivery.EventsError
	)
	switch {
	case errors.As(err, &address):
		f.Faults["address"] = label.Sentence(address.Error())
	case errors.As(err, &events):
		f.Faults["events"] = label.Sentence(events.Error())
	case errors.Is(err, delivery.ErrTooManyWebhooks):
		f.Faults["form"] = "This workspace has its 5 webhooks. Delete one first."
	default:
		return false
	}
	return true
}

func newPage(r *web.Request) error {
	return showForm(r, http.StatusOK, &form{All: true})
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
