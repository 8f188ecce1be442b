// Command ledgerfeed-bench measures the program against limits taken in the same
// run: what the same machine and database do at that moment without the program.
// A figure without its limit describes the machine rather than the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/consolebench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/deliverbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/ingestbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/logbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/readbench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/relaybench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/replaybench"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/syncbench"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError reports a command that was called wrongly; its exit status is 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// flags are the command line, shared by all benchmarks.
type flags struct {
	json    bool
	dataDir string
	scale   float64
	only    []string
	profile string

	measuring bool // a benchmark has started; errors before that are errors of usage
}

// execute runs a command line and returns the exit status: 0 done, 1 failed,
// 2 wrong usage (docs/contract/decisions.md, "Commands").
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	f := &flags{}
	root := f.command(out, errOut)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var usage *usageError
	if !f.measuring || errors.As(err, &usage) {
		fmt.Fprintf(errOut, "%s: %v\nSee %s --help.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return 2
	}
	fmt.Fprintf(errOut, "%s: %v\n", cmd.CommandPath(), err)
	return 1
}

func (f *flags) command(out, errOut io.Writer) *cobra.Command {
	o := &measure.Options{Progress: errOut}
	root := &cobra.Command{
		Use:   "ledgerfeed-bench",
		Short: "Measure Ledgerfeed against limits taken in the same run",
		Long: `Each benchmark prints figures beside a limit that was measured in the same run on
the same machine: a bare INSERT, a bare SELECT, a bare HTTP client.

It measures on the PostgreSQL server at DATABASE_URL, in a database of its own
that it drops at the end. Without DATABASE_URL it starts a PostgreSQL in --data-dir.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().BoolVar(&f.json, "json", false, "print one JSON object a figure")
	root.PersistentFlags().StringVar(&f.dataDir, "data-dir", dataDir(), "directory of the PostgreSQL that is started without DATABASE_URL")
	for _, b := range []measure.Benchmark{logbench.Benchmark(o), readbench.Benchmark(o), deliverbench.Benchmark(o), replaybench.Benchmark(o), consolebench.Benchmark(o), relaybench.Benchmark(o), ingestbench.Benchmark(o), syncbench.Benchmark(o)} {
		root.AddCommand(f.benchmark(&b, o, out))
	}
	return root
}

func dataDir() string {
	if dir := os.Getenv("LEDGERFEED_DATA_DIR"); dir != "" {
		return dir
	}
	return ".ledgerfeed"
}

// benchmark is the command of one benchmark, which measures with o.
func (f *flags) benchmark(b *measure.Benchmark, o *measure.Options, out io.Writer) *cobra.Command {
	parts := b.PartNames()
	c := &cobra.Command{
		Use: b.Name, Short: b.Short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.scale <= 0 || f.scale > 10 {
				return usagef("--scale is %g: want a number above 0 and at most 10, such as 0.1", f.scale)
			}
			if cmd.Flags().Changed("only") && len(f.only) == 0 {
				f.only = []string{""} // which is no part
			}
			for _, part := range f.only {
				if !slices.Contains(parts, part) {
					return usagef("--only is %q: want one or more of %s", part, strings.Join(parts, ","))
				}
			}
			f.measuring = true
			return f.measure(cmd.Context(), b, o, out)
		},
	}
	c.Flags().Float64Var(&f.scale, "scale", 1, "fraction of the sizes that the targets are stated for")
	if len(parts) > 1 {
		help := "measure only these parts, of " + strings.Join(parts, ",")
		if long := b.LongParts(); len(long) > 0 {
			help += "; " + strings.Join(long, ", ") + " are measured only by name, because they take from minutes to hours"
		}
		c.Flags().StringSliceVar(&f.only, "only", nil, help)
	}
	c.Flags().StringVar(&f.profile, "cpu-profile", "", "write a CPU profile of this process to a file, for go tool pprof")
	return c
}

func (f *flags) measure(ctx context.Context, b *measure.Benchmark, o *measure.Options, out io.Writer) (err error) {
	url, closeServer, err := f.server(ctx, o.Progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	stopProfile, err := startProfile(f.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	o.ServerURL, o.Report, o.Scale = url, measure.NewReport(out, f.json), f.scale
	return errors.Join(b.Run(ctx, f.only), o.Report.Close())
}

// stopTimeout bounds the wait for the PostgreSQL that was started to stop.
const stopTimeout = 30 * time.Second

// server returns the URL of a database on the server to measure on.
func (f *flags) server(ctx context.Context, errOut io.Writer) (url string, stop func() error, err error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return url, func() error { return nil }, nil
	}
	server, err := localpg.Open(ctx, localpg.Config{DataDir: f.dataDir, Logger: slog.New(slog.NewTextHandler(errOut, nil))})
	if err != nil {
		return "", nil, fmt.Errorf("cannot start a PostgreSQL: %w", err)
	}
	return server.URL(), func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return server.Close(ctx)
	}, nil
}

func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start the profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
