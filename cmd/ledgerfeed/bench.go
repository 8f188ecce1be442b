package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

// benchProgram has the benchmarks. It is a program of its own, so that their code
// is not part of what runs in production.
const benchProgram = "ledgerfeed-bench"

// benchCommand runs benchProgram with the same arguments. Its flags, its help and
// its exit status are those of that program.
func benchCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:                "bench log|read|deliver|replay|console|relay|ingest|instances",
		Short:              "Measure the program against limits taken in the same run (runs " + benchProgram + ")",
		DisableFlagParsing: true,
		RunE: env.Run(func(ctx context.Context, args []string) error {
			path, err := cli.FindSibling(benchProgram)
			if err != nil {
				return fmt.Errorf("%w, or run it with go run ./cmd/%s", err, benchProgram)
			}
			bench := exec.CommandContext(ctx, path, args...)
			bench.Stdin, bench.Stdout, bench.Stderr = env.In, env.Out, env.ErrOut
			// It drops its database when it is interrupted.
			bench.Cancel = func() error { return bench.Process.Signal(os.Interrupt) }
			err = bench.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				return &cli.ExitError{Status: exit.ExitCode()} // it has printed what is wrong
			}
			if err != nil {
				return fmt.Errorf("%s: %w", benchProgram, err)
			}
			return nil
		}),
	}
}
