// This file describes PostgreSQL's server programs and inspects directories that may hold them.

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
	Cluster  string                // the directory of the cluster that they will run
	Major    int                   // the version that created the cluster; 0: there is none yet
	Account  string                // the account that runs them
	MayReach func(dir string) bool // reports whether that account can enter a directory and all its parents
	Cache    string                // where to install them if the user's own cache cannot be used
}

// Programs are the server programs of one installation.
type Programs struct {
	Postgres string
	Initdb   string
	Major    int
}

// inspect looks for the programs in one directory. os.ErrNotExist means that it has none, which is
// normal for directories in PATH.
func inspect(ctx context.Context, dir string, w Wanted) (Programs, error) {
	// A symbolic link in PATH leads to the directory that also has initdb.
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

// HasLibrary reports whether a loadable module is installed in one of the directories that
// packagers use.
func (p Programs) HasLibrary(name string) bool {
	root := filepath.Dir(filepath.Dir(p.Postgres))
	for _, dir := range []string{"lib*", "lib*/*"} {
		if found, err := filepath.Glob(filepath.Join(root, dir, name+".[sd]*")); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
