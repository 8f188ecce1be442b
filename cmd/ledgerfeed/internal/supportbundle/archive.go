package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
)

// manifest says what is in an archive and what is not.
type manifest struct {
	MadeAt   time.Time `json:"made_at"`
	Version  string    `json:"version"`
	Database string    `json:"database"` // "read", or why it was not
	Parts    []entry   `json:"parts"`
	LeftOut  []string  `json:"left_out"`
}

// entry is a part in the manifest.
type entry struct {
	File  string `json:"file"`
	About string `json:"about"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"` // why it is not there
}

func newManifest(made time.Time, opened error) *manifest {
	m := &manifest{MadeAt: made, Version: buildinfo.Read().Version, Database: "read", LeftOut: []string{
		"the values of settings that are secrets, addresses, paths or names",
		"what doctor says where it names accounts, files, sessions or servers: there is the level alone",
		"ids, names and mail addresses of workspaces, webhooks, keys, people and objects; entries, rows, amounts",
		"the addresses of webhooks, and what their receivers answered",
		"texts of statements and errors: there are states and codes",
		"lines of logs: they have ids. Look for level=ERROR and level=WARN, and send those that you may",
	}}
	if opened != nil {
		m.Database = kindOf(opened)
	}
	return m
}

// save writes the archive to a new file, which its owner alone can read: the manifest,
// then the parts in their order.
func save(name string, m *manifest, contents [][]byte) (err error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the manifest: %w", err)
	}
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	add := func(file string, content []byte) {
		header := tar.Header{Typeflag: tar.TypeReg, Name: "ledgerfeed-support/" + file, Size: int64(len(content)), Mode: 0o600, ModTime: m.MadeAt}
		err = errors.Join(err, files.WriteHeader(&header))
		_, written := files.Write(content)
		err = errors.Join(err, written)
	}
	add("manifest.json", append(text, '\n'))
	for i, p := range m.Parts {
		if p.Error == "" {
			add(p.File, contents[i])
		}
	}
	if err := errors.Join(err, files.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("cannot make the archive: %w", err)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: choose another name with -o", name)
	} else if err != nil {
		return fmt.Errorf("cannot make the archive: %w", err)
	}
	_, err = file.Write(archive.Bytes())
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("cannot write the archive: %w", err), os.Remove(name))
	}
	return nil
}

func (m *manifest) write(out io.Writer, file string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range m.Parts {
		size := fmt.Sprintf("%d bytes", p.Bytes)
		if p.Error != "" {
			size = "not there: " + p.Error
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.File, p.About, size)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("cannot write what is in the archive: %w", err)
	}
	_, err := fmt.Fprintf(out, "\nThese are in %[1]s, and not: secrets, customers' data, ids, names, addresses, texts of errors, log lines.\nLook at it before you send it:  tar -xzf %[1]s\n", file)
	return err
}
