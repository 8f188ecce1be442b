package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/bench"
)

func (p *program) benchCommand() *cobra.Command {
	o := &bench.Options{}
	var commands []*cobra.Command
	for _, b := range bench.All(o) {
		commands = append(commands, p.benchOf(&b, o))
	}
	return group("bench", "Measure the program against limits taken in the same run", commands...)
}

// benchOf is the command of a benchmark that measures with o.
func (p *program) benchOf(b *bench.Benchmark, o *bench.Options) *cobra.Command {
	var (
		scale   float64
		only    []string
		profile string
	)
	parts := b.Parts()
	var c *cobra.Command
	c = &cobra.Command{
		Use:   b.Name,
		Short: b.Short,
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) (err error) {
			if scale <= 0 || scale > 10 {
				return usagef("--scale is %g: want a number above 0, such as 0.1", scale)
			}
			if c.Flags().Changed("only") && len(only) == 0 {
				only = []string{""} // which is no part
			}
			for _, part := range only {
				if !slices.Contains(parts, part) {
					return usagef("--only is %q: want one or more of %s", part, strings.Join(parts, ","))
				}
			}
			d, err := p.openServer(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.close(ctx)) }()
			stopProfile, err := startProfile(profile)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stopProfile()) }()
			report := bench.NewReport(p.out, p.json)
			*o = bench.Options{ServerURL: d.url, Report: report, Progress: p.errOut, Scale: scale, Only: only}
			return errors.Join(b.Measure(ctx), report.Close())
		}),
	}
	c.Flags().Float64Var(&scale, "scale", 1, "of the sizes that the targets are stated for")
	if len(parts) > 1 {
		c.Flags().StringSliceVar(&only, "only", nil, "measure these parts alone, of "+strings.Join(parts, ","))
	}
	c.Flags().StringVar(&profile, "cpu-profile", "", "write a profile of this process to a file, for go tool pprof")
	return c
}

func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(name) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err //nolint:wrapcheck // names the file
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("start the profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
