//go:build linux

// Command ledgerfeed-chaos runs the program on a real PostgreSQL, lets things go
// wrong at random moments that follow from a seed, and checks that nothing was lost
// and that everybody who had to be told was told (docs/reliability.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/fault"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/region"
)

func main() {
	if was, err := region.ServeBroker(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, "ledgerfeed-chaos:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError reports a command that was called wrongly; its exit status is 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errFound says that something was found; the report says what.
var errFound = errors.New("the run has found something")

// options are the command line.
type options struct {
	seed       uint64
	runFor     time.Duration
	faults     int
	only       []string
	except     []string
	program    string
	program0   string
	reader     string
	dir        string
	keep       bool
	untilFound bool
	workspaces int
	processes  int
	atOnce     int
	shorter    int
	pace       time.Duration
}

// execute runs a command line and returns the exit status: 0 nothing was found, 1
// something was, or the run could not be made, 2 wrong usage.
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := command(out, errOut)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "ledgerfeed-chaos: %v\nSee ledgerfeed-chaos --help.\n", err)
		return 2
	}
	fmt.Fprintf(errOut, "ledgerfeed-chaos: %v\n", err)
	return 1
}

func command(out, errOut io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "ledgerfeed-chaos",
		Short: "Let things go wrong around Ledgerfeed, and check that nothing is lost",
		Long: `Runs processes of the program on a PostgreSQL of its own, with producers,
followers and receivers, and does faults to them at random moments. At the end it
holds everything that anybody was told against the log.

The same --seed does the same faults in the same order. Exit status: 0 nothing
was found, 1 something was.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), &o, out, errOut)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.Flags()
	f.Uint64Var(&o.seed, "seed", 0, "decides about all faults (default: a new one, which is printed)")
	f.DurationVar(&o.runFor, "for", 5*time.Minute, "no fault begins later than this after the start")
	f.IntVar(&o.faults, "faults", 0, "the most faults (default: as many as there is time for)")
	f.StringSliceVar(&o.only, "only", nil, "only these kinds of faults: "+strings.Join(names(fault.Kinds()), ", "))
	f.StringSliceVar(&o.except, "except", nil, "all kinds but these")
	f.StringVar(&o.program, "program", "", "the ledgerfeed binary (default: built from this module)")
	f.StringVar(&o.program0, "upgrade-from", "", "another ledgerfeed binary, which the run begins with; the first fault is the upgrade")
	f.StringVar(&o.reader, "reader", "", "the ledgerfeed-reader binary (default: built from this module)")
	f.StringVar(&o.dir, "dir", "", "directory for everything the run makes (default: a new one in memory, where the machine has that)")
	f.BoolVar(&o.keep, "keep", false, "keep the directory, with the logs of all processes")
	f.BoolVar(&o.untilFound, "until-found", false, "end as soon as something is found")
	f.IntVar(&o.workspaces, "workspaces", 4, "workspaces that producers write to")
	f.IntVar(&o.processes, "processes", 2, "processes that serve; one of them is always left alone")
	f.IntVar(&o.atOnce, "at-once", 3, "faults that are under way at once")
	f.IntVar(&o.shorter, "shorter", 1, "how many times shorter faults and the pauses between them are, for a run of many")
	f.DurationVar(&o.pace, "pace", 100*time.Millisecond, "pause between two appends of each of the producers")
	return c
}

func names(kinds []*fault.Kind) (list []string) {
	for _, k := range kinds {
		list = append(list, k.Name)
	}
	return list
}

func (o *options) check() error {
	known := names(fault.Kinds())
	for _, name := range slices.Concat(o.only, o.except) {
		if !slices.Contains(known, name) {
			return usagef("there is no kind of fault %q; want some of %s", name, strings.Join(known, ", "))
		}
	}
	if o.runFor <= 0 || o.workspaces < 1 || o.pace <= 0 || o.atOnce < 1 || o.shorter < 1 || o.faults < 0 {
		return usagef("--for, --workspaces, --pace, --at-once and --shorter must be above 0, and --faults 0 or more")
	}
	if o.processes < 2 || o.processes > 26 {
		return usagef("--processes must be from 2 to 26")
	}
	return nil
}

// kinds are the possible ones that the command line asks for.
func (o *options) kinds(possible []*fault.Kind) []*fault.Kind {
	return slices.DeleteFunc(possible, func(k *fault.Kind) bool {
		return len(o.only) > 0 && !slices.Contains(o.only, k.Name) || slices.Contains(o.except, k.Name)
	})
}
