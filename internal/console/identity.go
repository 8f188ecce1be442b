package console

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// IdentityConfig is an OpenID Connect provider, and what it says about people.
type IdentityConfig struct {
	Issuer       string // its address, as in its description
	ClientID     string
	ClientSecret string
	Scopes       []string // asked for besides openid, profile and email

	// Claim is the claim of the ID token that decides where a person may go: a
	// text or a list of texts, such as groups. Default groups.
	Claim string
	// Map says what each value of the claim stands for. Empty: the values are
	// grants themselves, such as acme:admin.
	Map IdentityMap

	// Client talks to the provider; nil: one with a time limit of 10 s.
	Client *http.Client
}

// IdentityMap gives the grants of each value of a claim. A workspace * stands
// for every one.
type IdentityMap map[string][]Grant

// everyWorkspace is the workspace of a grant for all.
const everyWorkspace = "*"

// ParseIdentityMap reads a setting such as
// "finance=acme:admin;support=*:viewer,acme:admin".
func ParseIdentityMap(text string) (IdentityMap, error) {
	m := IdentityMap{}
	for rule := range strings.SplitSeq(text, ";") {
		if rule = strings.TrimSpace(rule); rule == "" {
			continue
		}
		value, list, ok := strings.Cut(rule, "=")
		if value = strings.TrimSpace(value); !ok || value == "" {
			return nil, fmt.Errorf("%q: want value=workspace:role, several grants separated by commas, several values by semicolons", rule)
		}
		for part := range strings.SplitSeq(list, ",") {
			g, ok := parseGrant(part)
			if !ok {
				return nil, fmt.Errorf("%q: want a grant such as acme:admin or *:viewer", part)
			}
			m[value] = append(m[value], g)
		}
	}
	return m, nil
}

func parseGrant(text string) (Grant, bool) {
	workspace, name, ok := strings.Cut(strings.TrimSpace(text), ":")
	role, known := ParseRole(name)
	return Grant{workspace, role}, ok && known && workspace != ""
}

// identity signs people in with a provider.
type identity struct {
	cfg      IdentityConfig
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

const (
	identityReturnPath = "/sign-in/identity/return"
	identityPatience   = 10 * time.Second // of one question to the provider
	identityTime       = 10 * time.Minute // in which a person has to sign in there
)

// errIdentity means that the provider did not sign a person in, or that the
// person has no role here.
var errIdentity = errors.New("the identity provider did not sign in")

// identityError is errIdentity with words for the person.
type identityError struct{ words string }

func (e *identityError) Error() string        { return errIdentity.Error() + ": " + e.words }
func (e *identityError) Is(target error) bool { return target == errIdentity }

func identityWords(err error) string {
	var e *identityError
	if errors.As(err, &e) {
		return e.words
	}
	return "The identity provider did not sign you in. Begin again."
}

func newIdentity(ctx context.Context, cfg IdentityConfig, returnURL string) (*identity, error) {
	if cfg.Issuer == "" || cfg.ClientID == "" {
		return nil, errors.New("the identity provider needs an issuer and a client id")
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: identityPatience}
	}
	if cfg.Claim == "" {
		cfg.Claim = "groups"
	}
	// The verifier keeps this context for the provider's keys, for good.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), cfg.Client), cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the identity provider %s for its description: %w", cfg.Issuer, err)
	}
	scopes := append([]string{oidc.ScopeOpenID, "profile", "email"}, cfg.Scopes...)
	return &identity{
		cfg: cfg,
		oauth: oauth2.Config{
			ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: returnURL, Scopes: scopes,
		},
		verifier: provider.Verifier(&oidc.Config{ClientID: cfg.ClientID}),
	}, nil
}

// attempt is a sign-in under way, kept in a cookie of the browser that began
// it: what comes back in another browser is refused.
type attempt struct {
	State, Nonce, Verifier, To string
}

func (t *attempt) String() string { return formatCursor(t) }

func (c *Console) identityBegin(a *ask) error {
	if c.identity == nil {
		return errNotHere
	}
	t := attempt{Verifier: oauth2.GenerateVerifier(), To: within(a.query("to"))}
	var err error
	if t.State, _, err = c.cfg.Door.token(); err != nil {
		return err
	}
	if t.Nonce, _, err = c.cfg.Door.token(); err != nil {
		return err
	}
	c.setCookie(a.w, identityCookie, t.String(), identityTime)
	return a.see(c.identity.oauth.AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)))
}

func (c *Console) identityReturn(a *ask) error {
	if c.identity == nil {
		return errNotHere
	}
	t, err := parseCursor[attempt](c.readCookie(a.r, identityCookie))
	if err != nil || t.State == "" || subtle.ConstantTimeCompare([]byte(t.State), []byte(a.query("state"))) != 1 {
		return &identityError{"This sign-in was not begun in this browser, or too long ago. Begin again."}
	}
	c.clearCookie(a.w, identityCookie)
	if a.query("error") != "" {
		return &identityError{"The identity provider did not sign you in. Begin again, or ask who runs it."}
	}
	person, values, err := c.identity.redeem(a.ctx, t, a.query("code"))
	if err != nil {
		c.cfg.Logger.WarnContext(a.ctx, "sign-in refused", "request_id", a.id, "error", err)
		return &identityError{"The identity provider's answer was not accepted. Begin again."}
	}
	grants, err := c.grants(a.ctx, values)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		return &identityError{"You are signed in as " + person + ", but have no role in any workspace here. Ask who manages your groups."}
	}
	to := t.To
	if len(grants) > 1 {
		to = "/workspaces"
	}
	return c.begin(a, person, grants[0].Workspace, grants, within(to), "with the identity provider")
}

// redeem turns the provider's code into who it is, and the values of the claim.
func (i *identity) redeem(ctx context.Context, t *attempt, code string) (person string, values []string, err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.cfg.Client), identityPatience)
	defer cancel()
	token, err := i.oauth.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return "", nil, fmt.Errorf("redeem the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", nil, errors.New("the answer has no ID token")
	}
	id, err := i.verifier.Verify(ctx, raw)
	if err != nil {
		return "", nil, fmt.Errorf("verify the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.Nonce)) != 1 {
		return "", nil, errors.New("the ID token is of another sign-in")
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return "", nil, fmt.Errorf("read the ID token: %w", err)
	}
	return personOf(id.Subject, claims), textsOf(claims[i.cfg.Claim]), nil
}

// personOf chooses what people know each other by. A mail address counts only
// if the provider has checked it.
func personOf(subject string, claims map[string]json.RawMessage) string {
	var verified bool
	_ = json.Unmarshal(claims["email_verified"], &verified) // absent or odd: not verified
	for _, name := range []string{"email", "preferred_username", "name"} {
		if list := textsOf(claims[name]); len(list) == 1 && (name != "email" || verified) {
			return list[0]
		}
	}
	return subject
}

// textsOf reads a claim that is a text or a list of texts.
func textsOf(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

// grants gives the workspaces that exist among those that the values of the
// claim stand for, with the highest role in each, in the order of their ids.
func (c *Console) grants(ctx context.Context, values []string) ([]Grant, error) {
	roles := map[string]Role{}
	for _, v := range values {
		granted := c.identity.cfg.Map[v]
		if len(c.identity.cfg.Map) == 0 {
			if g, ok := parseGrant(v); ok {
				granted = []Grant{g}
			}
		}
		for _, g := range granted {
			if roles[g.Workspace] != Admin {
				roles[g.Workspace] = g.Role
			}
		}
	}
	if len(roles) == 0 {
		return nil, nil
	}
	var ids []string // nil: all
	if _, every := roles[everyWorkspace]; !every {
		ids = []string{}
		for id := range roles {
			ids = append(ids, id)
		}
	}
	names, err := c.cfg.Door.workspaces(ctx, ids)
	if err != nil {
		return nil, err
	}
	var list []Grant
	for id := range names {
		role, named := roles[id]
		if every, ok := roles[everyWorkspace]; ok && (!named || every == Admin) {
			role = every
		}
		list = append(list, Grant{id, role})
	}
	slices.SortFunc(list, func(x, y Grant) int { return strings.Compare(x.Workspace, y.Workspace) })
	return list, nil
}
