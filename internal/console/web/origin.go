// This file checks the address at which people reach the console.

package web

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Origin is the address at which browsers reach the console.
type Origin struct {
	URL    string // without a trailing slash
	Secure bool   // https
}

// ParseOrigin parses an address such as https://console.example.com. It accepts plain http only on
// a loopback address, because the console's cookie signs people in.
func ParseOrigin(address string) (Origin, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !strings.EqualFold(strings.TrimSuffix(address, "/"), u.Scheme+"://"+u.Host) {
		return Origin{}, errors.New("want an address such as https://console.example.com")
	}
	o := Origin{URL: strings.TrimSuffix(address, "/"), Secure: u.Scheme == "https"}
	switch {
	case o.Secure, u.Scheme == "http" && isLoopback(u.Hostname()):
		return o, nil
	case u.Scheme == "http":
		return Origin{}, errors.New("beyond this machine it has to be https, because the console's cookie signs people in")
	}
	return Origin{}, errors.New("want https://…")
}

// maxList is the maximum length of a List, because every page names the origins in a header.
const maxList = 20

// List holds origins such as https://app.example.com, in the form that browsers send them.
type List []string

// UnmarshalText parses origins separated by commas.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if part == "" {
			continue
		}
		o, err := ParseOrigin(part)
		if err != nil {
			return err
		}
		// The list becomes part of a header, in which other characters would have a meaning.
		if strings.Trim(strings.SplitN(o.URL, "//", 2)[1], "abcdefghijklmnopqrstuvwxyz0123456789-.:[]") != "" {
			return errors.New("want host names in ASCII, without a pattern")
		}
		*l = append(*l, o.URL)
	}
	if len(*l) > maxList {
		return fmt.Errorf("want at most %d origins", maxList)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
