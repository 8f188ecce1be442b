package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/statement"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// stating has the page of a webhook's statement and its file. Statements are made from the
// tables while the browser waits, and read nothing that the webhook's page does not show.
type stating struct{ *Pages }

// statementBody is what the page of a statement is made from.
type statementBody struct {
	Webhook        row
	Enabled        bool // there is a key that signs
	Day            string
	Oldest, Newest string // of the days to choose from
	Fault          string
	Statement      *statement.Statement // nil: no day was chosen
	File           string               // the address of the statement as a file
	Keys           []string             // verifier keys
	KeysURL        string               // of the API's page about them
}

// Shown are the first events that are not delivered.
func (b *statementBody) Shown() []statement.Undelivered {
	return b.Statement.Undelivered[:min(len(b.Statement.Undelivered), shownUndelivered)]
}

// shownUndelivered is how many events the page names; the file names more.
const shownUndelivered = 50

// NotShown is how many events the page does not name.
func (b *statementBody) NotShown() int64 {
	return b.Statement.UndeliveredCount() - int64(len(b.Shown()))
}

// errNoStatements is a page for an address that the page of statements does not offer.
func errNoStatements() error {
	return &web.PageError{Status: http.StatusConflict, Title: "Nothing can be signed", Text: "This service has no signing key. Its operator can set one."}
}

func (p stating) page(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	body := &statementBody{Webhook: newRow(w), Enabled: p.Statements != nil, Day: r.Query("day"), KeysURL: p.KeysURL}
	status := http.StatusOK
	if body.Enabled {
		if body.Keys, err = p.Statements.Verifiers(); err != nil {
			return err
		}
		body.Oldest, body.Newest = p.Statements.Oldest().String(), p.Statements.Newest().String()
		if body.Day == "" {
			body.Day = statement.DayOf(r.Now.Add(-24 * time.Hour)).String()
		} else if status, err = p.fill(r, body); err != nil {
			return err
		}
	}
	return r.ShowStatus(status, "webhook-statement", web.View{Title: "Statement", Section: "webhooks", Body: body})
}

// fill makes the statement of the chosen day, or says what is wrong with the day.
func (p stating) fill(r *web.Request, body *statementBody) (status int, err error) {
	day, err := statement.ParseDay(body.Day)
	if err == nil {
		body.Statement, err = p.Statements.Make(r.Context(), body.Webhook.ID, day)
	}
	var wrong *statement.DayError
	switch {
	case errors.As(err, &wrong):
		body.Fault = label.Sentence(wrong.Reason)
		return http.StatusUnprocessableEntity, nil
	case err != nil:
		return 0, err
	}
	body.File = web.Address("/webhooks/"+body.Webhook.ID+"/statement.txt", "day", day.String())
	return http.StatusOK, nil
}

// file answers with the signed statement of a day, as of now.
func (p stating) file(r *web.Request) error {
	w, err := p.find(r, r.Path("webhook"))
	if err != nil {
		return err
	}
	if p.Statements == nil {
		return errNoStatements()
	}
	day, err := statement.ParseDay(r.Query("day"))
	var s *statement.Statement
	if err == nil {
		s, err = p.Statements.Make(r.Context(), w.ID, day)
	}
	var wrong *statement.DayError
	if errors.As(err, &wrong) {
		return &web.PageError{Status: http.StatusUnprocessableEntity, Title: "There is no statement of this day", Text: label.Sentence(wrong.Reason), Back: "/webhooks/" + w.ID + "/statement"}
	}
	if err != nil {
		return err
	}
	note, err := p.Statements.Sign(s)
	if err != nil {
		return err
	}
	r.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	r.W.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="statement-%s-%s.txt"`, w.ID, day))
	_, _ = r.W.Write(note) // an error means that the browser has gone away
	return nil
}
