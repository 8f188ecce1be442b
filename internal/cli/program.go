package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
)

// Complete gives the root of a program what all programs have: the answers to mistyped command
// lines, the commands version and help, and the examples. In examples, the path of each command is
// in brackets above the lines that its help shows.
func (e *Env) Complete(root *cobra.Command, examples string) {
	root.Version = fmt.Sprint(root.Name(), " ", ReadBuildInfo())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = NoSuchCommand
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(FlagError)
	root.AddCommand(e.versionCommand())
	addExamples(root, examples)
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Args = func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil {
				return &UsageError{err}
			}
			if !of.HasSubCommands() {
				return nil
			}
			return NoSuchCommand(of, rest)
		}
	}
}

// addExamples gives the examples to the commands of a tree.
func addExamples(root *cobra.Command, examples string) {
	for section := range strings.SplitSeq(examples, "\n\n") {
		path, lines, _ := strings.Cut(strings.TrimPrefix(section, "["), "]\n")
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			panic("examples of a command that does not exist: " + path)
		}
		c.Example = "  " + strings.ReplaceAll(strings.TrimRight(lines, "\n"), "\n", "\n  ")
	}
}

// Execute runs a command line of a program and returns its exit status.
func (e *Env) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.ErrOut)
	// Who asks for the help of a command that does not exist is told so.
	var mistyped error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() {
			mistyped = NoSuchCommand(cmd, cmd.Flags().Args())
		}
		if mistyped == nil {
			help(cmd, args)
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	err = errors.Join(err, mistyped)
	if cmd.Name() == "help" {
		cmd = root // which has the help that was meant
	}
	var (
		exit  *ExitError
		usage *UsageError
	)
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.Status
	case !e.started || errors.As(err, &usage):
		fmt.Fprintf(e.ErrOut, "%s: %v\nSee %s --help.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(e.ErrOut, "%s: %v\n", cmd.CommandPath(), err)
	return ExitFailed
}

// versionCommand reads no settings, so that it answers whatever is wrong with them.
func (e *Env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := ReadBuildInfo()
			return e.Print(info, e.Line(fmt.Sprint(cmd.Root().Name(), " ", info)))
		},
	}
}

// BuildInfo describes a build, as the Go toolchain writes it into every binary. Fields that the toolchain did not write are empty. For example, go run
// writes no commit.
type BuildInfo struct {
	Version  string `json:"version"`  // such as v1.2.0; of a commit without a tag, a pseudo-version; "devel" when unknown
	Commit   string `json:"commit"`   // hash
	Date     string `json:"date"`     // of the commit, RFC 3339
	Modified bool   `json:"modified"` // files differed from the commit
	Go       string `json:"go"`       // version of Go, such as go1.26.8
	Platform string `json:"platform"` // such as linux/amd64
}

// ReadBuildInfo returns the build information of the running binary.
func ReadBuildInfo() BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return newBuildInfo(info)
}

func newBuildInfo(info *debug.BuildInfo) BuildInfo {
	i := BuildInfo{Version: info.Main.Version, Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// String is the line of the command version, without the name of the program.
func (i BuildInfo) String() string {
	var b strings.Builder
	b.WriteString(i.Version)
	if i.Commit != "" {
		fmt.Fprintf(&b, ", commit %s of %s", i.Commit, i.Date)
		if i.Modified {
			b.WriteString(", with changes")
		}
	}
	fmt.Fprintf(&b, ", %s %s", i.Go, i.Platform)
	return b.String()
}

// FindSibling looks for another program of this project in the directory of this one, where it is
// installed, then on PATH.
func FindSibling(program string) (path string, err error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
			return path, nil
		}
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", fmt.Errorf("cannot find the program %s: go install ./cmd/... builds it beside this one", program)
	}
	return path, nil
}

// heapPercent is how much the heap may grow between two collections, in percent of what is in use. With
// Go's default, 100, and a thousand webhook messages in flight to receivers that hang, a collection
// took 50 ms every 2.5 s and delayed the messages to all other receivers.
const heapPercent = 400

// heapShare is the part of the control group's memory that Go may use. The rest is for what the runtime
// does not count, such as the binary and the kernel's buffers.
const heapShare = 0.8

// LetHeapGrow lets the heap grow to five times what is in use before it is collected, until restore is
// called. Near a share of the memory of the process's control group (a container), garbage is
// collected more often. GOGC and GOMEMLIMIT take precedence: the operator knows better how much
// memory there is.
func LetHeapGrow() (restore func()) { return letHeapGrow(memlimit.FromCgroup) }

func letHeapGrow(available func() (uint64, error)) (restore func()) {
	percentBefore, limitBefore := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	debug.SetGCPercent(percentBefore)
	if os.Getenv("GOMEMLIMIT") == "" {
		// An error means a system without control groups, where nothing limits the process.
		if bytes, err := available(); err == nil && bytes < math.MaxInt64 {
			debug.SetMemoryLimit(int64(heapShare * float64(bytes)))
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(heapPercent)
		}
	}
	return func() {
		debug.SetGCPercent(percentBefore)
		debug.SetMemoryLimit(limitBefore)
	}
}
