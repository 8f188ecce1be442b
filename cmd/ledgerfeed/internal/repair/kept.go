package repair

import (
	"fmt"
	"os"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/signing"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// keptCheckpoint is a checkpoint of an event tree that somebody kept, as verify shows it.
type keptCheckpoint struct {
	File     string   `json:"file"`
	Origin   string   `json:"origin"`
	Size     int64    `json:"size"`
	Root     string   `json:"root"`     // base64
	Position int64    `json:"position"` // of the log
	By       []string `json:"signed_by"`
	Holds    bool     `json:"holds"` // the log gives the same
	of       eventtree.Kept
}

// readKept reads checkpoints from files, each a signed note, which must be of one workspace.
// keys is a file with verifier keys; empty: those of this process.
func readKept(env *cli.Env, workspace *string, files []string, keys string) (list []keptCheckpoint, err error) {
	if len(files) == 0 && keys != "" {
		return nil, cli.Usagef("--verifier-keys is for --checkpoint, which is missing")
	}
	for _, file := range files {
		k, of, err := readOneKept(env, file, keys)
		if err != nil {
			return nil, fmt.Errorf("--checkpoint %s: %w", file, err)
		}
		if *workspace != "" && of != *workspace {
			return nil, cli.Usagef("--checkpoint %s is of the workspace %s, not %s: want checkpoints of one workspace", file, of, *workspace)
		}
		*workspace = of
		list = append(list, *k)
	}
	return list, nil
}

func readOneKept(env *cli.Env, file, keys string) (_ *keptCheckpoint, workspace string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	note, err := signingkey.ReadNote(f)
	if err != nil {
		return nil, "", err
	}
	origin, _, _ := strings.Cut(string(note), "\n")
	k := &keptCheckpoint{File: file, Origin: origin}
	if workspace, k.of.Sight, err = eventtree.ParseOrigin(origin); err != nil {
		return nil, "", fmt.Errorf("the first line: %w", err)
	}
	verifiers, err := verifiersOf(env, note, origin, keys)
	if err != nil {
		return nil, "", err
	}
	s, err := follower.OpenCheckpoint(note, origin, verifiers)
	if err != nil {
		return nil, "", err
	}
	k.Size, k.Root, k.Position, k.By = s.Tree.N, s.Tree.Hash.String(), s.Position, s.By
	k.of.State = eventtree.State{Position: s.Position, Chain: s.Chain, Size: s.Tree.N, Root: s.Tree.Hash}
	return k, workspace, nil
}

// verifiersOf are the keys that a checkpoint is checked with.
func verifiersOf(env *cli.Env, note []byte, origin, file string) (*signingkey.Verifiers, error) {
	if file == "" {
		v, err := signing.Own(env, note)
		if err != nil {
			return nil, fmt.Errorf("want --verifier-keys, a file in the form of /docs/keys.txt: %w", err)
		}
		return v, nil
	}
	text, err := textfile.Read(file)
	if err != nil {
		return nil, err
	}
	list, err := signingkey.ForName(string(text), origin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return signingkey.ParseVerifiers(strings.Join(list, "\n"))
}

// statesOf is what the checkpoints say.
func statesOf(list []keptCheckpoint) (states []eventtree.Kept) {
	for i := range list {
		states = append(states, list[i].of)
	}
	return states
}

// failed notes a difference that is about one of the checkpoints.
func failed(list []keptCheckpoint, d *replay.Difference) {
	for i := range list {
		if d.Resource == replay.ResourceKept && d.ID == replay.KeptID(&list[i].of) {
			list[i].Holds = false
		}
	}
}

func (k *keptCheckpoint) String() string {
	if !k.Holds {
		return fmt.Sprintf("%s: the log does NOT give the tree %s of size %d, which %s signed", k.File, k.Origin, k.Size, strings.Join(k.By, " and "))
	}
	return fmt.Sprintf("%s: the log gives the tree %s of size %d at position %d, as %s signed it", k.File, k.Origin, k.Size, k.Position, strings.Join(k.By, " and "))
}
