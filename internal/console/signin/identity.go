package signin

import (
	"errors"
	"net/http"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/identity"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

const (
	// IdentityReturnPath is where the identity provider sends the browser back to.
	IdentityReturnPath = "/sign-in/identity/return"
	// attemptLifetime is how long a person may take to sign in at the provider.
	attemptLifetime = 10 * time.Minute
)

// refused is the page about a sign-in that failed, with a text for the person.
func refused(text string) error {
	return &web.PageError{Status: http.StatusForbidden, Title: "Could not sign you in", Text: text, Back: "/sign-in"}
}

// away is the page about a provider that has not answered yet.
func away() error {
	return &web.PageError{
		Status: http.StatusServiceUnavailable, Title: "Your organisation's sign-in is not responding",
		Text: "It is retried automatically; try again in a minute. In the meantime you can use a sign-in link.", Back: "/sign-in",
	}
}

func (p *Pages) beginIdentity(r *web.Request) error {
	if p.Provider == nil {
		return web.ErrNotFound
	}
	attempt, err := identity.NewAttempt(p.Sessions.Token, web.Local(r.Query("to")))
	if err != nil {
		return err
	}
	address, err := p.Provider.SignInURL(attempt)
	if errors.Is(err, identity.ErrNotReady) {
		return away()
	}
	if err != nil {
		return err
	}
	r.SetCookie(web.IdentityCookie, web.FormatCursor(attempt), attemptLifetime)
	return r.Redirect(address)
}

func (p *Pages) returnIdentity(r *web.Request) error {
	if p.Provider == nil {
		return web.ErrNotFound
	}
	attempt, err := web.ParseCursor[identity.Attempt](r.Cookie(web.IdentityCookie))
	if err != nil || !attempt.Matches(r.Query("state")) {
		return refused("This sign-in was not started in this browser, or was started too long ago. Start again.")
	}
	if !p.Provider.Ready() {
		return away() // this process has just been started; the page can be loaded again
	}
	r.ClearCookie(web.IdentityCookie)
	if r.Query("error") != "" {
		return refused("The identity provider did not sign you in. Start again, or ask the people who run it.")
	}
	person, values, err := p.Provider.Redeem(r.Context(), attempt, r.Query("code"))
	if err != nil {
		r.Warn("sign-in refused", err)
		return refused("The identity provider's answer was not accepted. Start again.")
	}
	grants, err := p.Provider.Grants(r.Context(), values, p.Sessions.Workspaces)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		return refused("You are signed in as " + person.Name + ", but have no role in any workspace here. Ask who manages your groups.")
	}
	to := attempt.To
	if len(grants) > 1 {
		to = "/workspaces"
	}
	return p.begin(r, person, grants, web.Local(to), "with the identity provider")
}
