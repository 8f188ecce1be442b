package localpg

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// packageRoot is the directory that contains everything in an npm archive.
const packageRoot = "package/"

// unpack writes the server's part of an npm archive below dir. The archive's checksum is pinned,
// but unpack checks its file names as well: that costs nothing, and a later pinned version may
// differ.
func unpack(archive io.Reader, dir string) error {
	zipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(zipped)
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(head.Name, packageRoot)
		if head.Typeflag != tar.TypeReg || !strings.HasPrefix(name, "native/") {
			continue
		}
		path, err := inside(dir, name)
		if err != nil {
			return err
		}
		if err := writeFile(path, files, head.FileInfo().Mode().Perm()&0o111|0o644); err != nil {
			return err
		}
	}
}

// writeFile writes one file of the archive. It sets the mode regardless of the umask, because
// another account may run these programs.
func writeFile(path string, content io.Reader, mode os.FileMode) error {
	if err := datadir.MakeDirs(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A child forked now would inherit the file, open for writing, until its exec. A program that
	// is open for writing cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// makeLinks makes the package's symbolic links, which an npm archive cannot hold. It replaces the
// package's own script, which does not run.
func makeLinks(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	for _, link := range links {
		source, err := inside(dir, link.Source)
		if err != nil {
			return err
		}
		target, err := inside(dir, link.Target)
		if err != nil {
			return err
		}
		to, err := filepath.Rel(filepath.Dir(target), source)
		if err != nil {
			return err
		}
		if err := os.Symlink(to, target); err != nil {
			return err
		}
	}
	return nil
}

// inside joins a name from the archive to dir. It refuses a name that leads out of dir.
func inside(dir, name string) (string, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return "", fmt.Errorf("the name %q leads out of the package", name)
	}
	return filepath.Join(dir, local), nil
}
