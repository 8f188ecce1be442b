// Package origin checks the address at which people reach the console.
package origin

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// Origin is where people's browsers reach the console.
type Origin struct {
	URL    string // without a slash at the end
	Secure bool   // https
}

// Parse reads an address such as https://console.example.com. Plain http is
// accepted on a loopback address only, because the console's cookie signs people
// in.
func Parse(address string) (Origin, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
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

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
