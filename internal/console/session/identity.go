// This file signs people in with an OpenID Connect provider: it sends them
// there, redeems the code that they come back with, and maps a claim of the ID
// token to roles in workspaces.

package session

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// IdentityConfig describes an OpenID Connect provider.
type IdentityConfig struct {
	Issuer       string // the provider's address, as in its discovery document
	ClientID     string
	ClientSecret string
	Scopes       []string // requested in addition to openid, profile and email

	// Claim is the ID token claim that decides which workspaces a person may open: a string or a
	// list of strings, such as groups. Default groups.
	Claim string
	// Map holds the grants for each value of the claim. Empty: the values are grants themselves,
	// such as acme:admin.
	Map Map

	// Client sends requests to the provider; nil: a client with a timeout of 10 s.
	Client *http.Client

	// Retry is the wait after the first failure to read the discovery document; it doubles up to
	// 30 s. Default 1 s.
	Retry time.Duration
}

// requestTimeout bounds one request to the provider.
const requestTimeout = 10 * time.Second

// Provider signs people in once Run has read the provider's discovery document. It
// is safe for concurrent use.
type Provider struct {
	cfg       IdentityConfig
	returnURL string
	logger    *slog.Logger
	found     atomic.Pointer[discovered] // nil until Run has read the document
}

// discovered holds what Provider takes from the discovery document.
type discovered struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// NewProvider creates a Provider but sends no request. The provider sends people back to returnURL.
// The error says what cfg lacks.
func NewProvider(cfg IdentityConfig, returnURL string, logger *slog.Logger) (*Provider, error) {
	if cfg.Issuer == "" || cfg.ClientID == "" {
		return nil, errors.New("the identity provider needs an issuer and a client id")
	}
	client := http.Client{Timeout: requestTimeout}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.Transport = &boundedTransport{cmp.Or(client.Transport, http.DefaultTransport)}
	cfg.Client = &client
	cfg.Claim = cmp.Or(cfg.Claim, "groups")
	cfg.Retry = cmp.Or(cfg.Retry, firstRetry)
	return &Provider{cfg: cfg, returnURL: returnURL, logger: logger}, nil
}

const (
	// firstRetry is the wait after the first failure to read the discovery document; it doubles up
	// to longestRetry.
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// Run reads the discovery document, retrying until it succeeds, and returns when ctx ends. A
// provider that does not answer delays only sign-ins with it.
func (p *Provider) Run(ctx context.Context) error {
	outage := flow.Outage{
		Logger:  p.logger.With("issuer", p.cfg.Issuer),
		Failing: "cannot read the discovery document of the identity provider, so people sign in with links only; trying again",
		Working: "read the discovery document of the identity provider: people can sign in with it",
	}
	for wait := p.cfg.Retry; ctx.Err() == nil; wait = min(2*wait, longestRetry) {
		if err := p.discover(ctx); ctx.Err() == nil {
			outage.LogTransition(ctx, err)
		}
		if p.Ready() {
			<-ctx.Done()
		} else {
			flow.Sleep(ctx, wait)
		}
	}
	return nil
}

func (p *Provider) discover(ctx context.Context) error {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.cfg.Client), p.cfg.Issuer)
	if err != nil {
		return brief(err)
	}
	p.found.Store(&discovered{
		oauth: oauth2.Config{
			ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: p.returnURL,
			Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.cfg.Scopes...),
		},
		verifier: provider.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}),
	})
	return nil
}

// maxResponse is the maximum number of bytes read from a response. Documents and keys of providers
// are a few kilobytes.
const maxResponse = 1 << 20

// boundedTransport cuts off responses at maxResponse.
type boundedTransport struct{ http.RoundTripper }

// RoundTrip bounds the body of the response.
func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the client names the request
	}
	resp.Body = &boundedBody{io.LimitReader(resp.Body, maxResponse), resp.Body}
	return resp, nil
}

type boundedBody struct {
	io.Reader
	io.Closer
}

// maxErrorText is the maximum length, in bytes, of a provider's error in a log line: the libraries
// put whole response pages into their errors.
const maxErrorText = 300

func brief(err error) error {
	if text := err.Error(); len(text) > maxErrorText {
		return errors.New(strings.ToValidUTF8(text[:maxErrorText], "") + "…")
	}
	return err
}

// Ready reports whether people can sign in with the provider.
func (p *Provider) Ready() bool { return p.found.Load() != nil }

// ErrNotReady means that Run has not read the discovery document yet.
var ErrNotReady = errors.New("the identity provider has not answered yet")

// Attempt is a sign-in in progress. The browser that began it keeps it in a cookie; the console
// refuses it from any other browser.
type Attempt struct {
	State, Nonce, Verifier string
	To                     string // the page to go to afterwards
}

// NewAttempt creates an Attempt with random tokens from token.
func NewAttempt(token func() (string, error), to string) (*Attempt, error) {
	a := &Attempt{Verifier: oauth2.GenerateVerifier(), To: to}
	var err error
	if a.State, err = token(); err != nil {
		return nil, err
	}
	if a.Nonce, err = token(); err != nil {
		return nil, err
	}
	return a, nil
}

// Matches reports whether a state that came back belongs to the attempt.
func (a *Attempt) Matches(state string) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

// SignInURL returns the address where the provider signs the person in. The error is ErrNotReady.
func (p *Provider) SignInURL(a *Attempt) (string, error) {
	found := p.found.Load()
	if found == nil {
		return "", ErrNotReady
	}
	return found.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Redeem exchanges the provider's code for the person and the values of the claim. The error is
// ErrNotReady, or says why it does not accept the provider's answer.
func (p *Provider) Redeem(ctx context.Context, a *Attempt, code string) (person Person, values []string, err error) {
	found := p.found.Load()
	if found == nil {
		return person, nil, ErrNotReady
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.cfg.Client), requestTimeout)
	defer cancel()
	token, err := found.oauth.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return person, nil, fmt.Errorf("cannot redeem the code: %w", brief(err))
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return person, nil, errors.New("the provider's answer has no ID token")
	}
	id, err := found.verifier.Verify(ctx, raw)
	if err != nil {
		return person, nil, fmt.Errorf("cannot verify the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return person, nil, errors.New("the ID token belongs to another sign-in")
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return person, nil, fmt.Errorf("cannot read the ID token: %w", err)
	}
	if len(id.Subject) > maxSubject {
		return person, nil, fmt.Errorf("the ID token's subject is longer than %d bytes", maxSubject)
	}
	values = stringsOf(claims[p.cfg.Claim])
	if p.cfg.Claim == "email" && !verified(claims) {
		values = nil // people could have entered somebody else's address
	}
	return Person{Name: personName(id.Subject, claims), Issuer: id.Issuer, Subject: id.Subject}, values, nil
}

// Workspaces returns the names of the workspaces that exist, like Store.Workspaces.
type Workspaces func(ctx context.Context, ids []string) (names map[string]string, err error)

// Grants returns the grants for the values of the claim, only in workspaces that exist, with the
// highest role in each, ordered by workspace.
func (p *Provider) Grants(ctx context.Context, values []string, workspaces Workspaces) ([]Grant, error) {
	roles := map[string]Role{}
	for _, v := range values {
		granted := p.cfg.Map[v]
		if len(p.cfg.Map) == 0 {
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
	names, err := workspaces(ctx, ids)
	if err != nil {
		return nil, err
	}
	var list []Grant
	for id := range names {
		role, named := roles[id]
		if every, ok := roles[everyWorkspace]; ok && (!named || every == Admin) {
			role = every
		}
		list = append(list, Grant{Workspace: id, Role: role})
	}
	slices.SortFunc(list, func(x, y Grant) int { return cmp.Compare(x.Workspace, y.Workspace) })
	return list, nil
}

const (
	// maxSubject is the longest subject, in bytes, that OpenID Connect allows (Core, 2).
	maxSubject = 255
	// maxName is how many characters of a name are kept: many providers let people choose their
	// name, and the audit trail keeps it for good.
	maxName = 200
)

// personName chooses the name that others see. It uses a mail address only if the provider has
// verified it.
func personName(subject string, claims map[string]json.RawMessage) string {
	for _, claim := range []string{"email", "preferred_username", "name"} {
		if list := stringsOf(claims[claim]); len(list) == 1 && (claim != "email" || verified(claims)) {
			if name := bounded(list[0]); name != "" {
				return name
			}
		}
	}
	return bounded(subject)
}

// bounded returns a name without control characters, cut to maxName characters.
func bounded(name string) string {
	kept := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, name))
	return string(kept[:min(len(kept), maxName)])
}

// verified reports whether the provider has verified the person's mail address.
func verified(claims map[string]json.RawMessage) (yes bool) {
	_ = json.Unmarshal(claims["email_verified"], &yes) // absent or of another type: not verified
	return yes
}

// stringsOf reads a claim that is a string or a list of strings.
func stringsOf(raw json.RawMessage) []string {
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

// Map holds the grants for each value of a claim. The workspace * stands for every workspace.
type Map map[string][]Grant

// everyWorkspace is the workspace of a grant that applies to all workspaces.
const everyWorkspace = "*"

// UnmarshalText is ParseMap, for settings.
func (m *Map) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMap(string(text))
	return err
}

// ParseMap parses a map such as "finance=acme:admin;support=*:viewer,acme:admin"; an empty text
// gives an empty map.
func ParseMap(text string) (Map, error) {
	m := Map{}
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
	return Grant{Workspace: workspace, Role: role}, ok && known && workspace != ""
}
