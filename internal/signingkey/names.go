package signingkey

import (
	"errors"
	"net/url"
	"strings"
)

// Host returns the name of the service's key, with which all names of notes begin: the host of the
// API's address, with its port if it has one, in lower case.
func Host(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "", errors.New("the API's address names no host")
	}
	return strings.ToLower(u.Host), nil
}
