//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func wantRefusal(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func mustMake(t *testing.T, path string) *Dir {
	t.Helper()
	dir, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func TestMakeAndWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	dir := mustMake(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made as %v, %v", info, err)
	}
	if _, err := dir.ReadFile("key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := dir.WriteFile("key", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := dir.CreateFile("key", []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made over an existing one: %v", err)
	}
	if text, err := mustMake(t, path).ReadFile("key"); err != nil || string(text) != "one" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := dir.WriteFile("key", []byte("three")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(path, "key")); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 5 {
		t.Errorf("replaced by %v, %v", info, err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) != 1 {
		t.Errorf("the directory holds %v, %v", left, err)
	}
}

func TestOneOfManyMakesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		made int
	)
	for range 8 {
		all.Go(func() {
			dir, err := Make(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = dir.Close() }()
			err = dir.CreateFile("key", []byte("text"))
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d made it, want 1", made)
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	t.Parallel()
	t.Run("writable", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "dir")
		mustMake(t, path)
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		_, err := Make(path)
		wantRefusal(t, err, path, "can be written to by other accounts", "0777", "chmod go-w")
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Make(path)
		wantRefusal(t, err, path, "not a directory")
	})
}

func TestLinksOnTheWay(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	real := filepath.Join(base, "real")
	mustMake(t, real)
	for name, target := range map[string]string{"absolute": real, "relative": "real", "chained": "relative", "round": "../" + filepath.Base(base) + "/real"} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"absolute", "relative", "chained", "round", "./real/../relative"} {
		got, err := Resolve(base + "/" + name + "/below")
		if err != nil || got != filepath.Join(real, "below") {
			t.Errorf("%s leads to %s, %v", name, got, err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(base, "loop")); err != nil {
		t.Fatal(err)
	}
	_, err := Resolve(filepath.Join(base, "loop"))
	wantRefusal(t, err, "too many symbolic links")
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		want   string
	}{
		"writable": {func(t *testing.T, path string) { chmod(t, path, 0o622) }, "can be written to by other accounts"},
		"readable": {func(t *testing.T, path string) { chmod(t, path, 0o640) }, "can be read by other accounts"},
		"a link": {func(t *testing.T, path string) {
			t.Helper()
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(filepath.Base(path)+".real", path)); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		"a pipe": {func(t *testing.T, path string) {
			t.Helper()
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dir")
			dir := mustMake(t, path)
			if err := dir.WriteFile("key", []byte("text")); err != nil {
				t.Fatal(err)
			}
			test.change(t, filepath.Join(path, "key"))
			_, err := dir.ReadFile("key")
			wantRefusal(t, err, filepath.Join(path, "key"), test.want)
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// A file is on the disk before its name is, and its name before it is said to be
// there: a key must survive a power failure once something is sealed under it.
func TestFilesLast(t *testing.T) {
	t.Parallel()
	for _, write := range []func(*Dir, string, []byte) error{(*Dir).WriteFile, (*Dir).CreateFile} {
		path := filepath.Join(t.TempDir(), "data")
		dir, err := Make(path)
		if err != nil {
			t.Fatal(err)
		}
		var synced []string
		dir.sync = func(f *os.File) error {
			info, err := f.Stat()
			if err != nil {
				return err
			}
			_, missing := os.Stat(filepath.Join(path, "key"))
			synced = append(synced, fmt.Sprintf("directory %v, its name is there %v", info.IsDir(), missing == nil))
			return f.Sync()
		}
		if err := errors.Join(write(dir, "key", []byte("text")), dir.Close()); err != nil {
			t.Fatal(err)
		}
		want := []string{"directory false, its name is there false", "directory true, its name is there true"}
		if !slices.Equal(synced, want) {
			t.Errorf("synchronized %q, want %q", synced, want)
		}
	}
}
