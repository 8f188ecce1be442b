package signingkey

import (
	"errors"
	"net/url"
	"strings"
)

// Host is the beginning of all names of notes: the host of the API's address, with its port
// if it has one, in lower case.
func Host(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "", errors.New("the API's address names no host")
	}
	return strings.ToLower(u.Host), nil
}

// StatementName is the name of the key of statements about webhooks, and their first line.
func StatementName(baseURL string) (string, error) {
	host, err := Host(baseURL)
	if err != nil {
		return "", err
	}
	return host + "/webhook-statements", nil
}
