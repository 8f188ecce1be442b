package follower

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// stateForm is the form of state files that this version writes and reads.
const stateForm = 1

// State is how far a follower has come. A file keeps it between runs.
type State struct {
	Form   int    `json:"form"`
	URL    string `json:"url"`
	Since  string `json:"since,omitempty"`  // created_since of the first request
	Cursor string `json:"cursor,omitempty"` // empty: nothing has been read
	Events int64  `json:"events"`           // how many have been handed on
	Output *Mark  `json:"output,omitempty"` // only if the output is a file

	// With --verify.
	Origin     string   `json:"origin,omitempty"`
	Keys       []string `json:"verifier_keys,omitempty"`
	Witnesses  []string `json:"witnesses,omitempty"`        // verifier keys
	Needed     int      `json:"witnesses_needed,omitempty"` // how many of Witnesses must have cosigned
	Proven     *Range   `json:"proven,omitempty"`           // nil: no event yet
	Earliest   int64    `json:"earliest_size"`              // of the first checkpoint that was accepted
	Checkpoint string   `json:"checkpoint,omitempty"`
}

// Range is a run of events in a tree, by index.
type Range struct {
	First int64 `json:"first"`
	Next  int64 `json:"next"` // one past the last
}

// Place is the file that keeps a State. Without a name, nothing is kept.
type Place struct{ Name string }

// Load reads the file. If it does not exist, Load returns a new State.
func (p Place) Load() (*State, error) {
	fresh := &State{Form: stateForm}
	if p.Name == "" {
		return fresh, nil
	}
	text, err := texts.ReadFile(p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s is no state of a follower: %w", p.Name, err)
	}
	if s.Form != stateForm {
		return nil, fmt.Errorf("%s is no state of a follower, or of another version: its form is %d, want %d", p.Name, s.Form, stateForm)
	}
	return s, nil
}

// Save replaces the file. Whenever the machine stops, the file is whole, either old or new.
func (p Place) Save(s *State) error {
	if p.Name == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", "\t")
	if err == nil {
		err = replace(p.Name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot keep the place: %w", err)
	}
	return nil
}

// replace writes a temporary file, syncs it and renames it to name.
func replace(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes new and renamed files in a folder durable.
func syncFolder(name string) error {
	folder, err := os.Open(name) //nolint:gosec // the folder of a file that the caller names
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Keep writes the evidence of a difference into a new folder next to the state, and returns the
// folder. at is the time, for the folder's name.
func (p Place) Keep(d *DifferenceError, at string) (folder string, err error) {
	folder, err = os.MkdirTemp(filepath.Dir(p.Name), filepath.Base(p.Name)+".evidence-"+at+"-")
	if err != nil {
		return "", err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"difference.txt", []byte(d.Sentence + "\n")}, {"kept.note", d.Kept}, {"seen.note", d.Seen}, {"shown", d.Shown}} {
		if f.text != nil {
			if err := replace(filepath.Join(folder, f.name), f.text); err != nil {
				return "", err
			}
		}
	}
	return folder, syncFolder(filepath.Dir(folder))
}
