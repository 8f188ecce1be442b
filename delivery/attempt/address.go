package attempt

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxAddress is the maximum length of a webhook's address, in characters.
const maxAddress = 2048

// AddressError says what is wrong with a webhook's address.
type AddressError struct{ Reason string }

// Error is a sentence for the user.
func (e *AddressError) Error() string { return "the address " + e.Reason }

// Private reports whether the address is refused because messages would not be encrypted or would stay
// in a local network, as in a trial.
func (e *AddressError) Private() bool {
	return e.Reason == noTLS || strings.HasPrefix(e.Reason, notPublic)
}

// Encrypted reports whether messages to the address would be encrypted.
func (e *AddressError) Encrypted() bool { return e.Reason != noTLS }

const (
	noTLS     = "must start with https://"
	notPublic = "must be reachable from the internet: "
)

// CheckAddress checks the form of a webhook's address (docs/contract/decisions.md, "Webhooks"):
// https, a host name or a public address, no user info, no fragment, at most 2,048 characters, and
// no name that can only be local. Every connection checks what the name resolves to. Ranges in
// allow count as public; if there are any, local names are accepted. The error is an *AddressError.
func CheckAddress(address string, allow []netip.Prefix) error {
	if reason := faultOf(address, newFilter(allow)); reason != "" {
		return &AddressError{Reason: reason}
	}
	return nil
}

// Shown returns a webhook's address as pages, mails and commands show it, with "?…" in place of its
// query, which may hold a secret.
func Shown(address string) string {
	before, _, found := strings.Cut(address, "?")
	if found {
		return before + "?…"
	}
	return address
}

// Label names a webhook for people: by its name, if it has one, and by its host and path.
func Label(name, address string) string {
	_, place, _ := strings.Cut(Shown(address), "://")
	if name == "" {
		return place
	}
	return name + " (" + place + ")"
}

func faultOf(address string, f *filter) string {
	switch {
	case len(address) > maxAddress:
		return fmt.Sprintf("is longer than %d characters", maxAddress)
	case !strings.HasPrefix(strings.ToLower(address), "https://"):
		return noTLS
	case strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r > 0x7e }):
		return "has a character that an address must not have; international names are written in their xn-- form"
	case strings.Contains(address, "#"):
		return "must not have a fragment (#…)"
	}
	u, err := url.Parse(address)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return "cannot be read: " + err.Error()
	}
	if u.User != nil || strings.Contains(u.Host, "@") {
		return "must not hold a user name or password"
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has a port that is not between 1 and 65535"
		}
	}
	return hostFault(u.Hostname(), strings.HasPrefix(u.Host, "["), f)
}

func hostFault(host string, bracketed bool, f *filter) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "must not have a zone"
		}
		if f.check(ip.Unmap()) != nil {
			return notPublic + host + " is not a public address"
		}
		return ""
	}
	if bracketed || !isHostName(host) {
		return "must have a host name or an IP address"
	}
	if len(f.allow) == 0 && isLocalName(host) {
		return notPublic + host + " is a name of local networks only"
	}
	return ""
}

// isLocalName reports whether a name can only be local: a single label, or a name under a reserved
// domain (RFC 6761, RFC 6762, RFC 8375, and .internal, which ICANN has reserved).
func isLocalName(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.Count(host, ".") == 1 {
		return true
	}
	for _, domain := range []string{".localhost", ".local", ".internal", ".home.arpa", ".test", ".invalid"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// isHostName accepts letters, digits, hyphens and underscores in labels. The last
// label must not be a number: some programs read such a name as an IPv4 address
// in one of its older spellings.
func isHostName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 {
		return false
	}
	label := ""
	for label = range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if letter := 'a' <= c|0x20 && c|0x20 <= 'z'; !letter && c != '-' && c != '_' && (c < '0' || c > '9') {
				return false
			}
		}
	}
	_, err := strconv.ParseUint(strings.ToLower(label), 0, 64)
	return err != nil && strings.Trim(label, "0123456789") != ""
}
