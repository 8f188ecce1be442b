// Package datadir opens the directory in which the program keeps its own files: the key for
// webhooks' secrets, the demo's keys, the local PostgreSQL.
//
// Other accounts may be able to write to the directory's place (it can be in /tmp), and nothing
// that they put there may be used, such as a key that they know or a server that they run. So the
// directory, the files in it and the symbolic links on the way to it must belong to root or to the
// account that runs the program, and only these may be able to change them. Each file is opened
// first and then the open file is checked, so exchanging it in between has no effect.
package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is an open data directory.
type Dir struct {
	*os.Root
	sync func(*os.File) error // (*os.File).Sync, except in tests
}

// Make opens the data directory at a path and creates it with mode 0700 if it is missing. The error
// for a directory that cannot be trusted says who owns it and what to do.
func Make(path string) (*Dir, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	above := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		above = 0o711 // root's PostgreSQL runs under another account, which has to pass through
	}
	if err := errors.Join(MakeDirs(filepath.Dir(path), above), MakeDirs(path, 0o700)); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrPermission) {
		if info, serr := os.Lstat(path); serr == nil {
			return nil, refusal(path, info)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	if err := checkDir(root, path); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Dir{root, (*os.File).Sync}, nil
}

// MakeDirs creates a directory and its missing parents, with a mode that does not depend on the
// umask.
func MakeDirs(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := MakeDirs(filepath.Dir(dir), mode); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err == nil && mode&0o077 != 0 { // a umask removes only permissions of group and others
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		return err
	}
	above, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return nil //nolint:nilerr // a directory that may be entered but not read cannot be synced
	}
	return errors.Join(above.Sync(), above.Close())
}

func checkDir(root *os.Root, path string) error {
	opened, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(opened, named) {
		return fmt.Errorf("the data directory %s was exchanged while it was opened: see who can write to %s", path, filepath.Dir(path))
	}
	if err := CheckOwner(path, opened); err != nil {
		return err
	}
	if writableByOthers(opened) {
		return fmt.Errorf("the data directory %s can be written to by other accounts (its mode is %04o), so what is in it is not used: see that nothing in it is theirs, then run `chmod go-w %s`",
			path, opened.Mode().Perm(), path)
	}
	return nil
}

// OpenFile opens a file of the directory, with mode 0600 if it is created. It refuses a file that
// is not a regular file, belongs to another account or can be written to by others.
func (d *Dir) OpenFile(name string, flag int) (*os.File, error) {
	path := filepath.Join(d.Name(), name)
	// Check it before opening, because opening a named pipe would wait for its other end.
	if info, err := d.Lstat(name); err == nil {
		if err := checkFile(path, info); err != nil {
			return nil, err
		}
	}
	file, err := d.Root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil {
		err = checkFile(path, opened)
	}
	if err == nil {
		var named fs.FileInfo
		if named, err = d.Lstat(name); err == nil && !os.SameFile(opened, named) {
			err = fmt.Errorf("%s was exchanged while it was opened: %w", path, fs.ErrNotExist)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func checkFile(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file and is not used: see what it is, and remove it", path)
	}
	if err := CheckOwner(path, info); err != nil {
		return err
	}
	if writableByOthers(info) {
		return fmt.Errorf("%s can be written to by other accounts (its mode is %04o) and is not used: see that its content is yours, then run `chmod go-w %s`", path, info.Mode().Perm(), path)
	}
	return nil
}

// ReadFile reads a file with secrets. In addition to what OpenFile refuses, it refuses a file that
// other accounts can read.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	file, err := d.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if readableByOthers(info) {
		return nil, fmt.Errorf("%s holds secrets and can be read by other accounts (its mode is %04o): run `chmod 600 %s`, and consider its content known to them", file.Name(), info.Mode().Perm(), file.Name())
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return text, nil
}

// WriteFile creates or replaces a file. The file appears whole or not at all, and is on disk when
// WriteFile returns.
func (d *Dir) WriteFile(name string, text []byte) error { return d.write(name, text, d.Rename) }

// CreateFile creates a file, which appears whole or not at all. If the file exists, the error is
// fs.ErrExist, so of two programs that create it, one succeeds.
func (d *Dir) CreateFile(name string, text []byte) error { return d.write(name, text, d.Link) }

func (d *Dir) write(name string, text []byte, publish func(from, to string) error) error {
	side := "." + name + "-" + rand.Text()
	file, err := d.Root.OpenFile(side, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = d.Remove(side) }()
	_, err = file.Write(text)
	if err := errors.Join(err, d.sync(file), file.Close()); err != nil {
		return err
	}
	if err := publish(side, name); err != nil {
		return err
	}
	return d.Sync()
}

// Sync writes the names in the directory to disk. Without it, a file whose content is on disk
// can be gone after a power failure.
func (d *Dir) Sync() error {
	dir, err := d.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.sync(dir), dir.Close())
}
