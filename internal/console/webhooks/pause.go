package webhooks

import (
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// pausing are the buttons that pause a webhook and resume it.
type pausing struct{ *Pages }

func (p pausing) pause(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if _, err := w.Pause(r.Context(), p.Store); err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-paused")
}

func (p pausing) resume(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if _, err := w.Resume(r.Context(), p.Store); err != nil {
		return err
	}
	return r.Redirect("/webhooks/" + w.ID + "?did=webhook-resumed")
}
