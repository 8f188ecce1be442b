//go:build !unix

package datadir

import (
	"io/fs"
	"path/filepath"
)

// Resolve returns the absolute path.
func Resolve(path string) (string, error) { return filepath.Abs(path) }

// Files here have no owners and modes that say who may write. Access depends on the directory that
// the user chose.

// CheckOwner refuses nothing.
func CheckOwner(string, fs.FileInfo) error { return nil }
func refusal(path string, _ fs.FileInfo) error {
	return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
}

func writableByOthers(fs.FileInfo) bool { return false }
func readableByOthers(fs.FileInfo) bool { return false }
