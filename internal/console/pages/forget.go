package pages

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

type forgetBody struct {
	Kind, ID, Title, Here string
	Typed, Reason         string
	Faults                web.Faults
}

// subject returns who a page is about: a client or a contractor. The error is web.ErrNotFound if it is
// about neither.
func subject(r *web.Request) (s eventlog.Subject, err error) {
	s.ID = r.Path("id")
	switch r.Path("list") {
	case "clients":
		s.Kind = eventlog.SubjectClient
	case "contractors":
		s.Kind = eventlog.SubjectContractor
	default:
		err = web.ErrNotFound
	}
	return s, err
}

// forgetForm returns the form of the page, with what it is about.
func (p *Data) forgetForm(r *web.Request) (b *forgetBody, s eventlog.Subject, err error) {
	if s, err = subject(r); err != nil {
		return nil, s, err
	}
	l, err := p.list(r.Path("list"))
	if err != nil {
		return nil, s, err
	}
	read, err := p.Reader.Get(r.Context(), p.ask(r, l.Path+"/"+url.PathEscape(s.ID), nil, 0))
	switch {
	case err != nil:
		return nil, s, err
	case read.Status == http.StatusServiceUnavailable:
		return nil, s, errUnread
	case read.Status != http.StatusOK:
		return nil, s, web.ErrNotFound
	}
	found, err := readRow(read.Body)
	if err != nil {
		return nil, s, err
	}
	return &forgetBody{
		Kind: s.Kind, ID: s.ID, Title: found.title(l), Here: rowAddress(l.Slug, s.ID), Typed: r.Field("typed"), Reason: r.Field("reason"), Faults: web.Faults{},
	}, s, nil
}

func (p *Data) forgetPage(r *web.Request) error {
	body, _, err := p.forgetForm(r)
	if err != nil {
		return err
	}
	return showForget(r, http.StatusOK, body)
}

func showForget(r *web.Request, status int, body *forgetBody) error {
	return r.ShowStatus(status, "data-forget", web.View{Title: "Forget " + body.Title, Section: "data", Body: body})
}

// forget appends the entry that forgets a client or a contractor (docs/contract/log.md, "Forgetting"). A
// serving process deletes the values.
func (p *Data) forget(r *web.Request) error {
	body, s, err := p.forgetForm(r)
	if err != nil {
		return err
	}
	if body.Typed != s.ID {
		body.Faults["typed"] = "Type " + s.ID + ", to be sure that nobody else is forgotten."
		return showForget(r, http.StatusUnprocessableEntity, body)
	}
	draft, err := eventlog.ForgetDraft(r.Session.WorkspaceID, s, body.Reason)
	if wrong, is := errors.AsType[*domain.DraftError](err); is {
		body.Faults["reason"] = web.Sentence(wrong.Error())
		return showForget(r, http.StatusUnprocessableEntity, body)
	}
	if err != nil {
		return err
	}
	if _, err := p.Log.AppendForgotten(r.Context(), s, draft); err != nil {
		return err
	}
	return r.Redirect(body.Here + "?did=forgotten")
}
