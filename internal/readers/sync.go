package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/copying"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// syncFlags are the flags of sync.
type syncFlags struct {
	apiFlags

	to, schema        string
	once, check, keep bool
}

// foreverTrying is how long a copy that goes on tries to reach the API.
const foreverTrying = 10 * 365 * 24 * time.Hour

// syncCommand is ledgerfeed-reader sync.
func syncCommand(env *cli.Env) *cobra.Command {
	f := &syncFlags{}
	c := &cobra.Command{
		Use:   "sync",
		Short: "Keep a copy of the lists in SQLite or PostgreSQL",
		Long: `Keep a copy of all lists that the key may read, in SQLite or PostgreSQL. Each list is a table
with a column for each field. The first run copies the lists whole. Then the command waits
for changes and takes each over within a second. Stop it at any time: it goes on from where
it was, and the copy has each row once.

The command copies a list again by itself if that is needed, and says so in its log: the
service was restored to an earlier state, the key has other permissions, or the API has
new fields.

The table ` + "_ledgerfeed" + ` says for each list which position of the log the copy shows, and
since when it is fresh.

With --check, the command compares each row of the copy with the API and lists what differs,
with the names of the columns.
The exit status is 1 if anything does. Another process may keep the copy meanwhile.

docs/guides/copy.md describes the tables and the views for reports.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error { return f.run(ctx, env) }),
	}
	f.add(c)
	c.Flags().StringVar(&f.to, "to", "", "where the copy is: sqlite:FILE or postgres://… (required)")
	c.Flags().StringVar(&f.schema, "schema", "", "the schema that holds the copy in PostgreSQL (default: "+copying.DefaultSchema+")")
	c.Flags().BoolVar(&f.once, "once", false, "end when the copy has everything")
	c.Flags().BoolVar(&f.check, "check", false, "compare each row of the copy with the API; with --once, after copying")
	c.Flags().BoolVar(&f.keep, "soft-delete", false, "keep removed rows, with the time in removed_at")
	return c
}

func (f *syncFlags) run(ctx context.Context, env *cli.Env) (err error) {
	switch {
	case f.url == "":
		return cli.Usagef("want --url")
	case f.to == "":
		return cli.Usagef("want --to sqlite:FILE or --to postgres://…")
	}
	retryFor := time.Duration(0) // the client's own
	if !f.once && !f.check {
		retryFor = foreverTrying
	}
	api, err := f.connect(env, retryFor)
	if err != nil {
		return err
	}
	database, err := copying.Open(ctx, f.to, f.schema)
	if err != nil {
		return cli.Usagef("--to: %w", err)
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	copier := copying.New(copying.Config{
		API: api, Reconnect: f.reconnector(env, retryFor), Database: database, KeepRemoved: f.keep, Once: f.once, Clock: env.Clock, Pause: flow.Sleep, Logger: env.Logger,
	})
	if f.once || !f.check {
		err = copier.Run(ctx)
	}
	if err == nil && f.check {
		err = compare(ctx, env, copier)
	}
	return err
}

// compare prints what a check finds.
func compare(ctx context.Context, env *cli.Env, copier *copying.Copier) error {
	differs := false
	err := copier.Check(ctx, func(found *copying.Checked) error {
		differs = differs || len(found.Differences) > 0
		return env.Print(found, func(out io.Writer) error {
			verdict := "the copy is as the API"
			if n := len(found.Differences); n > 0 {
				verdict = texts.Count(n, "row differs", "rows differ")
			}
			fmt.Fprintf(out, "%s: %s, %s\n", found.List, texts.Count(found.Rows, "row", "rows"), verdict)
			for _, d := range found.Differences {
				fmt.Fprintf(out, "  %s\n", cli.Printable(d.String()))
			}
			if found.More {
				fmt.Fprintln(out, "  and more")
			}
			if len(found.Differences) > 0 && found.CopyPosition < found.Position {
				fmt.Fprintf(out, "  The copy shows the log at position %d, the API at %d: let sync catch up first.\n", found.CopyPosition, found.Position)
			}
			return nil
		})
	})
	if err == nil && differs {
		err = &cli.ExitError{Status: cli.ExitFailed}
	}
	return err
}
