package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// benchProgram is a program of its own, so that the code of the benchmarks is
// not part of what runs in production.
const benchProgram = "ledgerfeed-bench"

func benchCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:                "bench log|read|deliver|replay",
		Short:              "Measure the program against limits taken in the same run (runs " + benchProgram + ")",
		DisableFlagParsing: true, // the flags are those of the other program
		RunE: env.Run(func(ctx context.Context, args []string) error {
			path, err := findBenchProgram()
			if err != nil {
				return err
			}
			run := exec.CommandContext(ctx, path, args...)
			run.Stdin, run.Stdout, run.Stderr = env.In, env.Out, env.ErrOut
			run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
			if err := run.Run(); err != nil {
				var exited *exec.ExitError
				if errors.As(err, &exited) && exited.ExitCode() == cli.ExitUsage {
					return cli.Usagef("%s: %w", benchProgram, err)
				}
				return fmt.Errorf("%s: %w", benchProgram, err)
			}
			return nil
		}),
	}
}

// findBenchProgram looks beside this program, then on PATH.
func findBenchProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), benchProgram)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(benchProgram)
	if err != nil {
		return "", fmt.Errorf("the benchmarks are the program %s: build it beside this one, or run it with: go run ./cmd/%s", benchProgram, benchProgram)
	}
	return path, nil
}
