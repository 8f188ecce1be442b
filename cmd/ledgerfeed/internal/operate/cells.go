package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

// readCells reads the file of LEDGERFEED_CELLS, if it is set.
func readCells(s *settings.Settings) (Cells, error) {
	if s.Cells == "" {
		return nil, nil
	}
	for _, other := range [][2]string{
		{"DATABASE_URL", s.DatabaseURL}, {"LEDGERFEED_POOLER", string(s.Pooler)}, {"LEDGERFEED_LISTEN_DATABASE_URL", s.ListenURL}, {"LEDGERFEED_READ_DATABASE_URL", s.ReadURL},
	} {
		if other[1] != "" {
			return nil, fmt.Errorf("LEDGERFEED_CELLS is set: unset %s", other[0])
		}
	}
	cells, err := readCellFile(s.Cells)
	if err != nil {
		return nil, fmt.Errorf("LEDGERFEED_CELLS: %w", err)
	}
	return cells, nil
}

// ofCell labels a result with its cell.
type ofCell struct {
	Cell   string `json:"cell"`
	Result any    `json:"result"`
}

// overCells is the annotation of commands that work on all cells in turn, unless a flag names a cell
// or a workspace. Its value lists more flags that make them work on one cell.
const overCells = "cells"

// OverCells marks a command that works on all cells, unless one of these flags is given.
func OverCells(c *cobra.Command, oneCell ...string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[overCells] = strings.Join(oneCell, " ")
	return c
}

// isOverCells reports whether a call of a command works on all cells.
func isOverCells(c *cobra.Command) bool {
	oneCell, marked := c.Annotations[overCells]
	return marked && !slices.ContainsFunc(strings.Fields(oneCell), c.Flags().Changed)
}

// WithoutCells removes the mark, for a call that needs no database.
func WithoutCells(c *cobra.Command) { delete(c.Annotations, overCells) }

// inCells runs a command in the cell of --cell, in the workspace's cell, or in every cell. A command
// that needs a cell and was given none is refused when it opens the database.
func (e *Env) inCells(cmd *cobra.Command, work func(context.Context) error) error {
	ctx := cmd.Context()
	switch {
	case len(e.Cells) == 0 && e.inCell != "":
		return cli.Usagef("--cell: LEDGERFEED_CELLS is not set, so you cannot name a cell")
	case len(e.Cells) == 0:
		return work(ctx)
	case e.inCell != "":
		c, err := e.Cells.Named(e.inCell)
		if err != nil {
			return cli.Usagef("--cell: %v", err)
		}
		e.enter(&c)
		return work(ctx)
	}
	if id := workspaceOf(cmd); id != "" {
		c, err := e.Cells.Of(ctx, id)
		switch {
		case err == nil:
			e.enter(&c)
			return work(ctx)
		case errors.Is(err, errNowhere):
			return fmt.Errorf("no cell has the workspace %s. To create it, or to continue an interrupted move, add --cell with its new cell or the cell it came from: %s", id, strings.Join(e.Cells.Names(), ", "))
		}
		return err
	}
	if isOverCells(cmd) {
		return e.overCells(ctx, work)
	}
	return work(ctx)
}

// workspaceOf returns the workspace that a flag of the command names, of several the first; empty: none does.
func workspaceOf(cmd *cobra.Command) string {
	name := "workspace"
	if cmd.HasParent() && cmd.Parent().Name() == name {
		name = "id"
	}
	if f := cmd.Flags().Lookup(name); f != nil {
		first, _, _ := strings.Cut(f.Value.String(), ",")
		return first
	}
	return ""
}

// enter makes a cell the database of the command.
func (e *Env) enter(c *Cell) { e.Cell, e.Settings.DatabaseURL = c.Name, c.URL }

// InCell returns the environment of work in one cell.
func (e *Env) InCell(c Cell) *Env {
	in := *e
	in.enter(&c)
	in.Logger = e.Logger.With("cell", c.Name)
	return &in
}

// overCells does the work in every cell, even if one fails, and returns the highest exit status.
func (e *Env) overCells(ctx context.Context, work func(context.Context) error) error {
	e.several = true
	worst := cli.ExitDone
	for i := range e.Cells {
		e.enter(&e.Cells[i])
		if !e.JSON {
			fmt.Fprintf(e.Out, "cell %s\n", e.Cell)
		}
		err := work(ctx)
		var (
			exit  *cli.ExitError
			usage *cli.UsageError
		)
		switch {
		case err == nil:
		case errors.As(err, &usage):
			return err
		case errors.As(err, &exit):
			worst = max(worst, exit.Status)
		default:
			fmt.Fprintf(e.ErrOut, "cell %s: %v\n", e.Cell, e.explainConnection(err))
			worst = max(worst, cli.ExitFailed)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if worst != cli.ExitDone {
		return &cli.ExitError{Status: worst}
	}
	return nil
}

// NotElsewhere refuses to create workspaces that another cell has.
func (e *Env) NotElsewhere(ctx context.Context, workspaceIDs ...string) error {
	if len(e.Cells) == 0 {
		return nil
	}
	for _, id := range workspaceIDs {
		c, err := e.Cells.Of(ctx, id)
		switch {
		case errors.Is(err, errNowhere), err == nil && c.Name == e.Cell:
		case err != nil:
			return err
		default:
			return fmt.Errorf("the workspace %s already exists in the cell %s", id, c.Name)
		}
	}
	return nil
}

// needsCell is the error of a command that works on one cell and was not told which.
func (e *Env) needsCell() error {
	return cli.Usagef("this command works on one cell: add --cell, one of %s", strings.Join(e.Cells.Names(), ", "))
}
