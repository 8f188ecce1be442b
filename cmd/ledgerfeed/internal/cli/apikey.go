package cli

import (
	"fmt"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
)

// KeyVariable has the API key of commands that ask a service, where --key-file is not
// given.
const KeyVariable = "LEDGERFEED_KEY"

// APIKey reads the API key of a file, or without one that of the environment. It is never on
// the command line, which others can see.
func (e *Env) APIKey(file string) (string, error) {
	if file == "" {
		if key := strings.TrimSpace(e.Getenv(KeyVariable)); key != "" {
			return key, nil
		}
		return "", Usagef("want an API key with events:read, in --key-file or %s", KeyVariable)
	}
	text, err := textfile.Read(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("%s has no API key: want one line", file)
	}
	return key, nil
}
