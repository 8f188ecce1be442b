package readers

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTheReferenceShowsTheCommands: the guide of the API's reference shows sync and mcp, with flags that
// they have.
func TestTheReferenceShowsTheCommands(t *testing.T) {
	t.Parallel()
	guide := string(testkit.Must(os.ReadFile("../../readapi/reference/pages/guides/copy.html"))(t))
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:<pre.*<code>)?ledgerfeed-reader (.*?)(?:</code></pre>)?$`).FindAllStringSubmatch(guide, -1) {
		c, flags, err := Root(&cli.Env{Clock: time.Now}).Find(strings.Fields(m[1]))
		if err == nil {
			err = c.ParseFlags(flags)
		}
		if err != nil {
			t.Errorf("%s: %v", m[0], err)
			continue
		}
		shown[c.Name()] = true
	}
	if !shown["sync"] || !shown["mcp"] {
		t.Errorf("the guide shows %v", shown)
	}
}

// TestProgram: the program answers as ledgerfeed does, and has no settings but those of its log.
func TestProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set, args string
		code      int
		says      string
	}{
		"no command":         {"", "", cli.ExitDone, "ledgerfeed-reader [command]"},
		"the version":        {"", "version", cli.ExitDone, "ledgerfeed-reader devel"},
		"the version's flag": {"", "--version", cli.ExitDone, "ledgerfeed-reader devel"},
		"examples":           {"", "follow --help", cli.ExitDone, "ledgerfeed-reader follow --url https://api.example.com --key-file key"},
		"a command mistyped": {"", "folow", cli.ExitUsage, `ledgerfeed-reader: there is no command "folow"; did you mean follow?`},
		"a flag mistyped":    {"", "follow --verfy", cli.ExitUsage, "there is no flag --verfy; did you mean --verify?"},
		"no flags":           {"", "follow", cli.ExitUsage, "want --url\nSee ledgerfeed-reader follow --help."},
		"a format of logs":   {"LEDGERFEED_LOG_FORMAT=xml", "follow --url https://a.example", cli.ExitUsage, `LEDGERFEED_LOG_FORMAT is "xml": want text or json`},
		"a level of logs":    {"LEDGERFEED_LOG_LEVEL=loud", "follow --url https://a.example", cli.ExitUsage, `LEDGERFEED_LOG_LEVEL is "loud": want debug, info, warn or error`},
		"another's setting":  {"LEDGERFEED_BRAND=9x", "follow --url https://a.example", cli.ExitUsage, "want an API key with events:read"},
		"a file's absence":   {"", "follow --url https://a.example --key-file /absent", cli.ExitFailed, "/absent: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said testkit.Buffer
			env := &cli.Env{In: strings.NewReader(""), Out: &said, ErrOut: &said, Clock: time.Now, Environ: []string{c.set}}
			if code := env.Execute(t.Context(), Root(env), strings.Fields(c.args)); code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, c.code, c.says, said.String())
			}
		})
	}
}
