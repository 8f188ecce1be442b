// This file finds the server programs of PostgreSQL on the machine, and
// installs them through npm where there are none.

package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Wanted describes the programs to find.
type Wanted struct {
	Cluster  string                // the directory of the data that they are for
	Major    int                   // the version that made the data; 0: there is none yet
	Account  string                // who runs them
	MayReach func(dir string) bool // tells whether that account can enter a directory and those above
	Cache    string                // where to install them if the user's own cache does not serve
}

// Programs are the server programs of one installation.
type Programs struct {
	Postgres string
	Initdb   string
	Major    int
}

// inspect looks at one directory; an error of os.ErrNotExist means that it has
// no server programs, which is the ordinary case for those in PATH.
func inspect(ctx context.Context, dir string, w Wanted) (Programs, error) {
	// A link in PATH leads to the directory where initdb is, too.
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return Programs{}, os.ErrNotExist
	}
	progs := Programs{Postgres: postgres, Initdb: filepath.Join(filepath.Dir(postgres), "initdb")}
	if _, err := os.Stat(progs.Initdb); err != nil {
		return Programs{}, fmt.Errorf("initdb is missing beside %s", postgres)
	}
	if !w.MayReach(filepath.Dir(postgres)) {
		return Programs{}, fmt.Errorf("the account %s cannot reach it", w.Account)
	}
	progs.Major, err = askMajor(ctx, postgres)
	return progs, err
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// askMajor asks a postgres program for its major version.
func askMajor(ctx context.Context, postgres string) (int, error) {
	out, err := exec.CommandContext(ctx, postgres, "--version").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w: %s", postgres, err, strings.TrimSpace(string(out)))
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("ask %s for its version: it says %q", postgres, out)
	}
	return strconv.Atoi(string(m[1]))
}

// HasLibrary tells whether a loadable module is installed, in one of the places
//
//	where the packagers put them.
func (p Programs) HasLibrary(name string) bool {
	root := filepath.Dir(filepath.Dir(p.Postgres))
	for _, dir := range []string{"lib*", "lib*/*"} {
		if found, err := filepath.Glob(filepath.Join(root, dir, name+".[sd]*")); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
