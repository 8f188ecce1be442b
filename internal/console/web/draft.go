package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// A draft is a form that was sent after its session had ended. It is kept in a cookie of
// the browser that sent it, so that the server stores nothing, until the same person is
// signed in to the same workspace again and sees the form with it. It is only ever shown,
// never sent by itself.

const (
	// DraftLifetime is how long a form is kept after its session has ended.
	DraftLifetime = 30 * time.Minute
	// maxDraft bounds the cookie, because proxies bound the headers of an answer. A
	// larger form is not kept.
	maxDraft = 2400

	draftPage  = "draft_page"  // the field with the address of the page that the form is on
	draftOwner = "draft_owner" // the field with the owner
)

// Draft is what makes a form one that is kept: two fields of it.
type Draft struct {
	Page  string // the address of the page that the form is on
	Owner string // see ownerOf
}

// Draft is for the forms on the page with an address.
func (v *View) Draft(page string) Draft {
	return Draft{Page: page, Owner: ownerOf(v.Session.WorkspaceID, v.Session.Person)}
}

// ownerOf stands for a person in a workspace. People who use sign-in links have another
// subject with every link, so they are told apart by the name that the link was made for.
func ownerOf(workspaceID string, p session.Person) string {
	who := p.Name
	if p.Issuer != "" {
		who = p.Subject
	}
	h := sha256.Sum256([]byte(workspaceID + "\x00" + p.Issuer + "\x00" + who))
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// OfAnother tells whether the form that was sent is on a page of another workspace or person
// than the session: who has opened two workspaces in one browser has the session of the last.
func OfAnother(r *Request) bool {
	owner := r.PostForm.Get(draftOwner)
	return owner != "" && owner != ownerOf(r.Session.WorkspaceID, r.Session.Person)
}

// keepDraft keeps the form that was sent, if it is one to keep and not too large. It
// returns the page that it is on; empty: nothing is kept.
func (r *Request) keepDraft() (page string) {
	page = Local(r.PostForm.Get(draftPage))
	if page == "/" || r.PostForm.Get(draftOwner) == "" {
		return ""
	}
	value := base64.RawURLEncoding.EncodeToString([]byte(r.PostForm.Encode()))
	if len(value) > maxDraft {
		return ""
	}
	r.SetCookie(DraftCookie, value, DraftLifetime)
	return page
}

// draft returns the form that is kept in the browser; nil: none.
func (r *Request) draft() url.Values {
	text, err := base64.RawURLEncoding.DecodeString(r.Cookie(DraftCookie))
	if err != nil || len(text) == 0 {
		return nil
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil
	}
	return form
}

// DraftPage is the page of the form that is kept for a person in a workspace; empty:
// none.
func (r *Request) DraftPage(workspaceID string, p session.Person) string {
	form := r.draft()
	if form.Get(draftOwner) != ownerOf(workspaceID, p) {
		return ""
	}
	page := Local(form.Get(draftPage))
	if page == "/" {
		return ""
	}
	return page
}

// RestoreDraft makes the fields of the form that is kept for this page and person those of
// the request, and keeps the form no longer. It returns false where there is none.
func (r *Request) RestoreDraft() bool {
	if r.DraftPage(r.Session.WorkspaceID, r.Session.Person) != r.URL.Path {
		return false
	}
	r.PostForm = r.draft()
	r.ClearCookie(DraftCookie)
	return true
}

// DropDraft keeps no form any longer: another person may use the browser.
func (r *Request) DropDraft() {
	if strings.TrimSpace(r.Cookie(DraftCookie)) != "" {
		r.ClearCookie(DraftCookie)
	}
}
