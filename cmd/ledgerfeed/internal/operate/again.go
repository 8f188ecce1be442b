package operate

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

// defaultDataDir is the default of LEDGERFEED_DATA_DIR.
const defaultDataDir = ".ledgerfeed"

// Again is how a person calls this program in another terminal, in any directory, so that
// it has the settings of this process and the data directory dataDir: the settings of the
// environment come before its name, and the flags for all commands after it. Secrets are
// left out.
func (e *Env) Again(dataDir string) string {
	var parts []string
	for _, s := range e.InForce() {
		if s.From == settings.FromEnvironment && !s.Secret && s.Variable != "LEDGERFEED_DATA_DIR" {
			parts = append(parts, s.Variable+"="+quote(s.Value))
		}
	}
	called, directory := calledAs()
	parts = append(parts, called)
	if e.config != "" {
		parts = append(parts, "--config", quote(absolute(e.config)))
	}
	if dataDir = absolute(dataDir); directory == "" || dataDir != filepath.Join(directory, defaultDataDir) {
		parts = append(parts, "--data-dir", quote(dataDir))
	}
	return strings.Join(parts, " ")
}

// calledAs is the program itself, as it is called from any directory, and the directory
// that it then runs in; empty: the caller's.
func calledAs() (called, directory string) {
	self, err := os.Executable()
	if err == nil && !strings.Contains(self, "go-build") {
		if called = os.Args[0]; strings.ContainsRune(called, filepath.Separator) {
			called = absolute(called)
		}
		return quote(called), ""
	}
	if root := sourceRoot(); root != "" {
		return "go run -C " + quote(root) + " ./cmd/ledgerfeed", root
	}
	return "go run ./cmd/ledgerfeed", ""
}

// modulePath is the module that this program is part of.
const modulePath = "github.com/ledgerfeed/ledgerfeed"

// sourceRoot is the root of this program's module, found from the working directory upwards;
// empty: the working directory is outside the module. go run works only inside it (go run -C
// changes to it), so this finds the root whenever go run started the program. The path that the
// compiler recorded would not do: -trimpath removes it.
func sourceRoot() string {
	directory, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if text, err := os.ReadFile(filepath.Join(directory, "go.mod")); err == nil {
			if declaresModule(string(text)) {
				return directory
			}
			return "" // of another module, which go run would take, too
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return ""
		}
		directory = parent
	}
}

// declaresModule reports whether a go.mod is the one of modulePath.
func declaresModule(mod string) bool {
	for line := range strings.Lines(mod) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "module" {
			return strings.Trim(words[1], `"`) == modulePath
		}
	}
	return false
}

// absolute makes a path hold in every directory.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// quote makes one word of a shell out of a text.
func quote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=[]"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
