package cli

import (
	"os"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

// Again is how a person calls this program in another terminal so that it has the
// settings of this process: those of the environment before its name, and the flags
// for all commands after it. Secrets are left out.
func (e *Env) Again() string {
	var parts []string
	for _, s := range e.InForce() {
		if s.From == settings.FromEnvironment && !s.Secret && s.Variable != "LEDGERFEED_DATA_DIR" {
			parts = append(parts, s.Variable+"="+quote(s.Value))
		}
	}
	parts = append(parts, calledAs())
	if e.config != "" {
		parts = append(parts, "--config", quote(e.config))
	}
	switch {
	case e.dataDir != "":
		parts = append(parts, "--data-dir", quote(e.dataDir))
	case os.Getenv("LEDGERFEED_DATA_DIR") != "":
		parts = append(parts, "--data-dir", quote(e.Settings.DataDir))
	}
	return strings.Join(parts, " ")
}

// calledAs is the program itself.
func calledAs() string {
	self, err := os.Executable()
	if err != nil || strings.Contains(self, "go-build") {
		return "go run ./cmd/ledgerfeed"
	}
	return quote(os.Args[0])
}

// quote makes one word of a shell out of a text.
func quote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=[]"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
