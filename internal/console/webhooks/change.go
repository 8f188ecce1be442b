package webhooks

import (
	"net/http"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/signaturecheck"
)

func (p *Pages) create(r *web.Request) error {
	f, events := readForm(r)
	// The store's faults beside those of the choice, so that the page shows all.
	f.addFaults(p.Store.Check(f.change(events)))
	if len(f.Faults) > 0 {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	w, err := p.Store.Create(r.Context(), r.Session.WorkspaceID, delivery.Definition{
		URL: f.Address, Events: events, Name: f.Name, Description: f.Description, Standard: f.Standard,
	})
	if f.addFaults(err) {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return p.showSecret(r, w, false)
}

// secretBody is what the page that shows a signing secret is made from.
type secretBody struct {
	Webhook delivery.Webhook
	Secret  string
	Samples []signaturecheck.Sample
	Header  string
	Rotated bool
}

func (p *Pages) showSecret(r *web.Request, w *delivery.WithSecret, rotated bool) error {
	header := p.Settings.Brand.SignatureHeader()
	list, err := signaturecheck.Samples(header)
	if err != nil {
		return err
	}
	return r.Show("webhook-shown", web.View{Title: "Signing secret", Section: "webhooks", Body: &secretBody{
		Webhook: w.Webhook, Secret: w.Secret, Samples: list, Header: header, Rotated: rotated,
	}})
}

func (p *Pages) editPage(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if f := restored(r); f != nil {
		return showForm(r, http.StatusOK, f)
	}
	f := &form{ID: w.ID, Address: w.URL, Name: w.Name, Description: w.Description, Standard: w.Standard, All: slices.Contains(w.Events, delivery.AllEvents), Chosen: map[string]bool{}}
	for _, e := range w.Events {
		f.Chosen[e] = true
	}
	return showForm(r, http.StatusOK, f)
}

func (p *Pages) edit(r *web.Request) error {
	before, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	f, events := readForm(r)
	f.addFaults(p.Store.Check(f.change(events)))
	if len(f.Faults) > 0 {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	w, err := p.Store.Edit(r.Context(), before.ID, f.change(events))
	if f.addFaults(err) {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-saved")
}

// confirmBody is what the pages that ask for confirmation are made from.
type confirmBody struct {
	Webhook row
	Overlap time.Duration
	OldEnds time.Time // when the present secret would end
}

// confirm shows a page that asks for confirmation.
func (p *Pages) confirm(page, title string) web.Handler {
	return func(r *web.Request) error {
		w, err := p.find(r, r.Path("webhook"))
		if err != nil {
			return err
		}
		overlap := p.Settings.SecretOverlap
		return r.Show(page, web.View{Title: title, Section: "webhooks", Body: &confirmBody{newRow(w), overlap, r.Now.Add(overlap)}})
	}
}

func (p *Pages) rotate(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	after, err := p.Store.RotateSecret(r.Context(), w.ID)
	if err != nil {
		return err
	}
	return p.showSecret(r, after, true)
}

func (p *Pages) delete(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if err := p.Store.Delete(r.Context(), w.ID); err != nil {
		return err
	}
	return r.Redirect("/webhooks?did=webhook-deleted")
}
