package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Reasons to refuse a request.
var (
	ErrNotFound    = errors.New("there is nothing at this address")
	ErrCrossOrigin = errors.New("the request came from another site")
	ErrViewer      = errors.New("a viewer cannot change anything")
	ErrForm        = errors.New("the form cannot be read")
	ErrNotFramed   = errors.New("the address is for a frame of a product")
)

// PageError is an error with the text of its page.
type PageError struct {
	Status int
	Title  string
	Text   string
	ID     string // id of the request, to find its log line; set by Fail
	Back   string // address to link back to; empty: the overview, or sign-in without a session
}

func (e *PageError) Error() string { return e.Title + ": " + e.Text }

// Fail answers with the page for an error. Unexpected errors go to the log, not to the page.
func (r *Request) Fail(err error) {
	if errors.Is(err, session.ErrNone) && (!r.Framed() || r.Live()) {
		r.signInFirst()
		return
	}
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the browser has gone away
	}
	e := pageError(err)
	e.ID = r.ID
	if e.Status >= http.StatusInternalServerError {
		r.site.Logger.ErrorContext(r.Context(), "console", "request_id", r.ID, "error", err)
	}
	if r.Session != nil && e.Back == "" {
		e.Back = "/"
	}
	if err := r.ShowStatus(e.Status, "error", View{Title: e.Title, Wide: r.Session == nil, Body: e}); err != nil {
		r.site.Logger.ErrorContext(r.Context(), "console", "request_id", r.ID, "error", err)
		http.Error(r.W, e.Title, e.Status)
	}
}

// pageError returns the page for an error.
func pageError(err error) PageError {
	var (
		page      *PageError
		key       *access.UnknownKeyError
		webhook   *delivery.UnknownWebhookError
		sent      *delivery.UnknownDeliveryError
		workspace *domain.UnknownWorkspaceError
		notLive   *access.NotLiveError
		secrets   *delivery.SecretsError
	)
	if moved, ok := errors.AsType[*eventlog.MovedError](err); ok {
		return movedPage(moved)
	}
	switch {
	case errors.As(err, &page):
		return *page
	case errors.Is(err, delivery.ErrHistoryComes):
		return PageError{Status: http.StatusConflict, Title: "Deliveries are still coming",
			Text: "The workspace has just been moved, and its earlier deliveries are still being copied. Try again in some minutes.", Back: "/webhooks"}
	case errors.As(err, &key), errors.As(err, &webhook), errors.As(err, &sent), errors.As(err, &workspace), errors.Is(err, ErrNotFound):
		return PageError{Status: http.StatusNotFound, Title: "Not found",
			Text: "There is nothing at this address in your workspace. It may have been deleted, or be too old to be stored."}
	case errors.Is(err, ErrCursor), errors.Is(err, delivery.ErrCursor), errors.Is(err, ErrForm):
		return PageError{Status: http.StatusBadRequest, Title: "This address does not work",
			Text: "The address of the page is not complete, or what was sent cannot be read. Start again from the list."}
	case errors.Is(err, session.ErrNone):
		return PageError{Status: http.StatusUnauthorized, Title: "Your session has ended",
			Text: "Reload the page around this one to continue. If that does not help, the browser keeps no cookies for frames of other sites."}
	case errors.Is(err, session.ErrLink):
		return PageError{Status: http.StatusNotFound, Title: "This address no longer works",
			Text: "It works once, within 10 minutes. Reload the page around this one."}
	case errors.Is(err, ErrNotFramed):
		return PageError{Status: http.StatusForbidden, Title: "Open this in your product",
			Text: "This address works only inside a page of a product that may show the console, so it still works there."}
	case errors.Is(err, ErrCrossOrigin):
		return PageError{Status: http.StatusForbidden, Title: "Refused",
			Text: "This request came from another site, so nothing was changed. Open the console and do it there."}
	case errors.Is(err, ErrViewer):
		return PageError{Status: http.StatusForbidden, Title: "You can look, but not change",
			Text: "Your role in this workspace is viewer. Ask an admin of the workspace to do this or to make you an admin."}
	case errors.As(err, &notLive):
		return PageError{Status: http.StatusConflict, Title: "This key is " + string(notLive.State),
			Text: "A key that is " + string(notLive.State) + " cannot be changed any more. Create a new one.", Back: "/keys"}
	case errors.As(err, &secrets):
		return PageError{Status: http.StatusConflict, Title: "Too many secrets sign",
			Text: Sentence(secrets.Error()) + " Nothing was changed.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrOff):
		return PageError{Status: http.StatusConflict, Title: "The webhook is off",
			Text: "Nothing is sent to a webhook that is off. Turn it back on first.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrPaused):
		return PageError{Status: http.StatusConflict, Title: "The webhook is paused",
			Text: "Resume it first. Until then a single delivery can be sent to it from the page of that delivery.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrNotFinished):
		return PageError{Status: http.StatusConflict, Title: "Still on its way",
			Text: "This delivery is retried automatically. It can be sent again once it has finished.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrFinished):
		return PageError{Status: http.StatusConflict, Title: "It has finished",
			Text: "This delivery is no longer retried automatically. Send it again instead.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrUnderWay):
		return PageError{Status: http.StatusConflict, Title: "It is being sent",
			Text: "The next attempt is being made right now, so there is nothing to bring forward. Check the delivery in a moment.", Back: "/webhooks"}
	case errors.Is(err, delivery.ErrTooManyDeliveries):
		return PageError{Status: http.StatusUnprocessableEntity, Title: "Too many at once",
			Text: fmt.Sprintf("At most %d deliveries are sent again at once. Choose fewer.", delivery.MaxResend), Back: "/webhooks"}
	case pg.Locked(err) && !errors.Is(err, delivery.ErrLocked):
		return PageError{Status: http.StatusServiceUnavailable, Title: "The database is busy",
			Text: "Something else is working on this in the database, so nothing was changed. Try again in a moment; if it happens again, give support the number below."}
	case pg.Canceled(err):
		return PageError{Status: http.StatusServiceUnavailable, Title: "This takes too long",
			Text: "The database did not finish this in time, so it was stopped and nothing was changed. Try again, if you can with a shorter time or fewer rows; if it happens again, give support the number below."}
	case pg.TakesNoWrites(err):
		return PageError{Status: http.StatusServiceUnavailable, Title: "The database takes no changes",
			Text: "It can only be read at the moment, or its disk is full, so nothing was changed. Ask the operator of the service, then try again."}
	case errors.Is(err, delivery.ErrLocked):
		return PageError{Status: http.StatusServiceUnavailable, Title: "The webhook is busy",
			Text: "Something else is working on this webhook in the database, so nothing was changed. Try again in a moment; if it happens again, give support the number below.", Back: "/webhooks"}
	}
	return PageError{Status: http.StatusInternalServerError, Title: "Something went wrong",
		Text: "This is our fault, not yours. Try again in a moment; if it happens again, give support the number below."}
}

// Unexplained reports whether an error has no page of its own that says what happened.
func Unexplained(err error) bool { return pageError(err).Status == http.StatusInternalServerError }

// movedPage returns the page for a change to a workspace that has moved, or is moving, to another
// database.
func movedPage(e *eventlog.MovedError) PageError {
	if !e.Away {
		return PageError{Status: http.StatusConflict, Title: "The workspace is being moved",
			Text: "It goes to another place, which takes some seconds, so nothing was changed. Try again in a moment."}
	}
	return PageError{Status: http.StatusConflict, Title: "The workspace has moved",
		Text: "It is served from another place now, so nothing can be changed here. Ask the operator of the service for the address of its console."}
}

// signInFirst redirects a browser without a session to the sign-in page, which later leads back to
// the requested page. The sign-in page says that a session ended, and whether a form was kept.
func (r *Request) signInFirst() {
	to, ended := "", ""
	if SessionToken(r) != "" {
		ended = EndedReading
	}
	switch {
	case r.Live() && r.Framed():
		r.W.Header().Set("HX-Redirect", "/") // that page says that the session has ended
		r.W.WriteHeader(http.StatusUnauthorized)
		return
	case r.Live():
		r.W.Header().Set("HX-Redirect", Address("/sign-in", "ended", ended))
		r.W.WriteHeader(http.StatusUnauthorized)
		return
	case r.Method == http.MethodPost:
		if to, ended = r.keepDraft(), EndedKept; to == "" {
			ended = EndedLost
		}
	case r.URL.Path != "/":
		to = r.URL.RequestURI()
	}
	http.Redirect(r.W, r.Request, Address("/sign-in", "to", to, "ended", ended), http.StatusSeeOther)
}

// Joined returns the errors that err joins, or err alone; nil for nil.
func Joined(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok { // the outermost error is the joined one
		return list.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// Values of the sign-in page's parameter "ended": what the browser asked for after its session had
// ended.
const (
	EndedReading = "reading" // a page
	EndedLost    = "lost"    // to send a form, which was not kept
	EndedKept    = "kept"    // to send a form, which is kept as a draft
)

// Faults holds what is wrong with a form, by the id of the field. Faults of the form as a whole are
// under "form".
type Faults map[string]string

// fault is a line of the error summary above a form.
type fault struct {
	Field string // id of the element that the line links to; empty: none
	Label string
	Text  string
}

// summary returns every fault of a form in the order of its fields, given as id, label, id, label,
// and so on.
func (f Faults) summary(fields ...string) []fault {
	var list []fault
	if text := f["form"]; text != "" {
		list = append(list, fault{Text: text})
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if text := f[fields[i]]; text != "" {
			list = append(list, fault{Field: fields[i], Label: fields[i+1], Text: text})
		}
	}
	return list
}

// faultSummary is Faults.summary for templates.
func faultSummary(f Faults, fields ...string) []fault { return f.summary(fields...) }

// firstFault returns the first field with a fault, which gets the focus when the form is shown
// again; empty: none.
func firstFault(list []fault) string {
	for _, f := range list {
		if f.Field != "" {
			return f.Field
		}
	}
	return ""
}

// faultCount returns the title of the summary, with the number of fields to correct.
func faultCount(list []fault) string {
	fields := 0
	for _, f := range list {
		if f.Field != "" {
			fields++
		}
	}
	if fields == 0 {
		return "Not saved"
	}
	return "Not saved. Fix " + Plural(fields, "field", "fields") + " below."
}
