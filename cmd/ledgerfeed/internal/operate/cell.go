package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Cell is one of several databases of an installation: a complete Ledgerfeed database with some of
// the workspaces.
type Cell struct {
	Name string `yaml:"name"` // of letters, digits and -, for people, metrics and tokens
	URL  string `yaml:"url"`  // as DATABASE_URL
}

// Cells are the cells of an installation, in the order of its file.
type Cells []Cell

// findCellTimeout bounds the search for a workspace in one cell.
const findCellTimeout = 5 * time.Second

// Names have no character that a token or an application name of PostgreSQL could not hold.
var validCellName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

// readCellFile reads a YAML file with a list of cells. The error names what is wrong and the form
// wanted, and never an address, which may hold a password.
func readCellFile(path string) (Cells, error) {
	text, err := texts.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the cells: %w", err)
	}
	s, err := parseCells(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parseCells(text []byte) (Cells, error) {
	var file struct {
		Cells Cells `yaml:"cells"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("want a list such as\n  cells:\n    - name: a\n      url: postgres://user@host/database")
	}
	if len(file.Cells) == 0 {
		return nil, errors.New("there are no cells: want at least one, with a name and a url")
	}
	names, urls := map[string]bool{}, map[string]bool{}
	for i, c := range file.Cells {
		switch {
		case !validCellName.MatchString(c.Name):
			return nil, fmt.Errorf("cell %d: the name is %q: want up to 20 letters a to z, digits and -, beginning with a letter", i+1, c.Name)
		case names[c.Name]:
			return nil, fmt.Errorf("cell %d: there are two cells with the name %s", i+1, c.Name)
		case c.URL == "":
			return nil, fmt.Errorf("cell %s: want a url such as postgres://user@host/database", c.Name)
		case urls[c.URL]:
			return nil, fmt.Errorf("cell %s: another cell has the same url", c.Name)
		}
		if _, err := pg.ParseConfig(c.URL); err != nil {
			return nil, fmt.Errorf("cell %s: the url is not a valid database address: want postgres://user:password@host:5432/name, or host=… user=… dbname=…", c.Name)
		}
		names[c.Name], urls[c.URL] = true, true
	}
	return file.Cells, nil
}

// Names returns the names of the cells.
func (s Cells) Names() []string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = s[i].Name
	}
	return names
}

// Named returns the cell with a name. The error names those that there are.
func (s Cells) Named(name string) (Cell, error) {
	for _, c := range s {
		if c.Name == name {
			return c, nil
		}
	}
	if len(s) == 0 {
		return Cell{}, errors.New("LEDGERFEED_CELLS is not set, so you cannot name a cell")
	}
	return Cell{}, fmt.Errorf("there is no cell %q; want one of %s%s", name, strings.Join(s.Names(), ", "), texts.DidYouMean(name, s.Names()))
}

// errNowhere is the error of Cells.Of for a workspace that is in no cell.
var errNowhere = errors.New("no cell has this workspace")

// Of returns the cell that has a workspace. It asks all cells at once, and does not wait for others
// when one has it. If none has it and one did not answer, the error says which.
func (s Cells) Of(ctx context.Context, workspaceID string) (Cell, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		of  Cell
		has bool
		err error
	}
	answers := make(chan answer, len(s))
	for _, c := range s {
		go func() {
			has, err := c.has(ctx, workspaceID)
			answers <- answer{c, has, err}
		}()
	}
	var failures error
	for range s {
		a := <-answers
		if a.has {
			return a.of, nil
		}
		failures = errors.Join(failures, a.err)
	}
	if failures != nil {
		return Cell{}, failures
	}
	return Cell{}, errNowhere
}

// has reports whether the cell serves a workspace. A workspace that has moved away, or has not fully
// arrived, does not count.
func (c *Cell) has(ctx context.Context, workspaceID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, findCellTimeout)
	defer cancel()
	conn, err := pg.Connect(ctx, c.URL)
	if err != nil {
		return false, fmt.Errorf("cannot look for the workspace %s in the cell %s: %w", workspaceID, c.Name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var found bool
	err = conn.QueryRow(ctx, `SELECT true FROM workspace WHERE workspace_id = $1 AND coalesce(move, '') NOT IN ('moved', 'receiving')`, workspaceID).Scan(&found)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("cannot look for the workspace %s in the cell %s: %w", workspaceID, c.Name, err)
	}
	return found, nil
}
