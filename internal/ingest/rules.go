package ingest

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
)

// Rules say what the messages of a source may do. They belong to the source, and never come with a
// message: its publisher may write anything into it.
type Rules struct {
	Relay     bool   // messages may bring a position and a chain, and are restored there
	Workspace string // the only workspace that entries may be of; empty: any
	Token     int    // which token behind the subject is the workspace of the entry: 1, 2, …; 0: none
}

// The parameters of an address that are rules.
const (
	ruleTrust     = "trust"
	ruleWorkspace = "workspace"
	ruleToken     = "workspace_token"
)

const (
	trustRelay = "relay"
	maxToken   = 16
)

var (
	errRuleTrust     = errors.New("trust is relay, or left out")
	errRuleWorkspace = errors.New("workspace is one workspace: 1 to 64 of A-Z a-z 0-9 _ -")
	errRuleToken     = fmt.Errorf("workspace_token is a number from 1 to %d: which token behind the subject is the workspace", maxToken)
	errRuleBoth      = errors.New("workspace and workspace_token exclude each other")
)

// CutRules takes the rules out of the address of a source. The error does not show passwords.
func CutRules(address string) (Rules, string, error) {
	var r Rules
	base, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return r, "", errors.New("what follows the ? is not of the form name=value&name=value")
	}
	for name, read := range map[string]func(string) error{ruleTrust: r.setTrust, ruleWorkspace: r.setWorkspace, ruleToken: r.setToken} {
		given, there := values[name]
		if !there {
			continue
		}
		if len(given) > 1 {
			return Rules{}, "", fmt.Errorf("%s is there twice", name)
		}
		if err := read(given[0]); err != nil {
			return Rules{}, "", err
		}
		values.Del(name)
		address = base + "?" + values.Encode()
	}
	if r.Workspace != "" && r.Token > 0 {
		return Rules{}, "", errRuleBoth
	}
	return r, strings.TrimSuffix(address, "?"), nil
}

func (r *Rules) setTrust(value string) error {
	if value != trustRelay {
		return errRuleTrust
	}
	r.Relay = true
	return nil
}

func (r *Rules) setWorkspace(value string) error {
	if !domain.IsID(value) {
		return errRuleWorkspace
	}
	r.Workspace = value
	return nil
}

func (r *Rules) setToken(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxToken {
		return errRuleToken
	}
	r.Token = n
	return nil
}

var errUntrusted = errors.New("the message has a position or a chain, as a relay gives them, and this source is not trusted as one: " +
	"if nobody but a relay can publish to it, add trust=relay to LEDGERFEED_INGEST_URL")

// place is where the message says that a relay found its entry; nil: it says nothing.
func (r *Rules) place(m *Message) (*place, error) {
	position, given := m.Metadata[bus.MetadataPosition]
	chain, too := m.Metadata[bus.MetadataChain]
	if !given && !too {
		return nil, nil
	}
	if !r.Relay {
		return nil, errUntrusted
	}
	return readPlace(position, chain)
}

// permits says why a message may not bring an entry of a workspace; nil: it may.
func (r *Rules) permits(m *Message, workspaceID string) error {
	if r.Workspace != "" && workspaceID != r.Workspace {
		return fmt.Errorf("the entry is of the workspace %s, and this source is bound to %s (workspace in LEDGERFEED_INGEST_URL)", workspaceID, r.Workspace)
	}
	if r.Token == 0 {
		return nil
	}
	if len(m.Tokens) < r.Token {
		return fmt.Errorf("the subject %s has no token %d that could be the workspace (workspace_token in LEDGERFEED_INGEST_URL)", m.Subject, r.Token)
	}
	if bound := m.Tokens[r.Token-1]; bound != workspaceID {
		return fmt.Errorf("the entry is of the workspace %s, and the subject %s is bound to %s (workspace_token in LEDGERFEED_INGEST_URL)", workspaceID, m.Subject, bound)
	}
	return nil
}
