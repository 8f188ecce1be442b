package signing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/delivery/statement"
)

// Statements makes what makes statements; nil: there is no key to sign them with.
func Statements(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) (*statement.Maker, error) {
	keys, err := Keys(ctx, env)
	if keys == nil || err != nil {
		return nil, err
	}
	set := &env.Settings
	return statement.New(statement.Config{Pool: pool, Keys: keys, BaseURL: set.BaseURL, Clock: env.Clock, Retention: set.Retention})
}

// StatementCommand is ledgerfeed webhook statement.
func StatementCommand(env *cli.Env) *cobra.Command {
	var day string
	c := &cobra.Command{
		Use:   "statement WEBHOOK",
		Short: "Print a signed statement of what became of a day's events",
		Long: `Print a signed statement of what became, for one webhook, of the events that were
published on one day (UTC): their numbers (sequence), how many were delivered, failed, were
cancelled, are pending, wait, or were not sent, and which are not delivered. Anybody can
check it with the verifier keys of /docs/keys: ledgerfeed signing-key check.

It is as of the moment in its line "made". What is pending or waits may be delivered after,
and a failed delivery that is sent again, too: a later statement of the same day says so.
There are statements of the days that are wholly within LEDGERFEED_RETENTION.
docs/statements.md explains each line.

Needs LEDGERFEED_SIGNING_KEY, and LEDGERFEED_BASE_URL and LEDGERFEED_RETENTION as for serve;
with the program's own PostgreSQL the key is in the data directory.`,
		Args: cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			chosen := statement.DayOf(env.Clock().Add(-24 * time.Hour))
			if day != "" {
				var err error
				if chosen, err = statement.ParseDay(day); err != nil {
					return cli.Usagef("--day: %w", err)
				}
			}
			return env.WithDeps(ctx, func(d *cli.Deps) error { return printStatement(ctx, env, d, args[0], chosen) })
		}),
	}
	c.Flags().StringVar(&day, "day", "", "the day (UTC) on which the events were published, such as 2026-11-22 (default: yesterday)")
	return c
}

// printStatement makes the statement and prints it.
func printStatement(ctx context.Context, env *cli.Env, d *cli.Deps, webhookID string, day statement.Day) error {
	maker, err := Statements(ctx, env, d.Pool)
	if err != nil {
		return err
	}
	if maker == nil {
		return ErrNoKey
	}
	s, err := maker.Make(ctx, webhookID, day)
	var wrong *statement.DayError
	if errors.As(err, &wrong) {
		return cli.Usagef("--day: %w", err)
	}
	if err != nil {
		return err
	}
	note, err := maker.Sign(s)
	if err != nil {
		return err
	}
	shown := struct {
		*statement.Statement
		Note string `json:"note"` // as it is checked
	}{s, string(note)}
	return env.Print(shown, func(out io.Writer) error {
		_, err := out.Write(note)
		if err != nil {
			return fmt.Errorf("cannot write the statement: %w", err)
		}
		return nil
	})
}
