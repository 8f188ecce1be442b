package signingkey

import (
	"errors"
	"net/url"
	"strings"
)

// Host is the name of the service's key, and the beginning of all names of notes: the host of
// the API's address, with its port if it has one, in lower case.
func Host(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "", errors.New("the API's address names no host")
	}
	return strings.ToLower(u.Host), nil
}
