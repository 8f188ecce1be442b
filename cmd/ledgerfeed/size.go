package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/similar"
	"github.com/ledgerfeed/ledgerfeed/internal/sizing"
	"github.com/ledgerfeed/ledgerfeed/internal/timespan"
)

// sizeFlags are the flags of ledgerfeed size.
type sizeFlags struct {
	load                  sizing.Load
	retention, checkpoint timespan.Flag
	archive               timespan.Flag
	processes             string
}

func sizeCommand(env *cli.Env) *cobra.Command {
	f := sizeFlags{checkpoint: timespan.Flag(5 * time.Minute), archive: timespan.Flag(time.Minute)}
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "size",
		Short: "Reckon what an installation needs: disk, write-ahead log, processors, memory, connections",
		Long: `Reckon what an installation needs, from costs of an entry, a delivery and a request
that were measured: disk after some years, write-ahead log a day, processors, memory,
connections and the size of backups. No database is needed; ledgerfeed doctor says what
one has. The costs, and how to measure them again, are in docs/operations/sizing.md.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(context.Context, []string) error {
			if !c.Flags().Changed("retention") {
				f.retention = timespan.Flag(env.Settings.Retention)
			}
			l, err := f.read()
			if err != nil {
				return err
			}
			e := l.Estimate()
			return env.Print(e, func(w io.Writer) error { return printEstimate(w, e) })
		}),
	}
	c.Flags().Float64Var(&f.load.EntriesPerDay, "entries-per-day", 0, "entries that come in a day (required)")
	c.Flags().IntVar(&f.load.Workspaces, "workspaces", 100, "workspaces that have entries in a day")
	c.Flags().Var(&f.retention, "retention", "how long deliveries are kept (default LEDGERFEED_RETENTION)")
	c.Flags().Float64Var(&f.load.WebhooksPerEvent, "webhooks-per-event", 1, "webhooks that an event goes to, on average")
	c.Flags().Float64Var(&f.load.RequestsPerSecond, "requests-per-second", 1, "requests to the API, on average over the day")
	c.Flags().Float64Var(&f.load.Years, "years", 1, "after how many years")
	c.Flags().Float64Var(&f.load.Peak, "peak", 10, "how many times the average the busiest minutes are")
	c.Flags().Var(&f.checkpoint, "checkpoint-timeout", "PostgreSQL's checkpoint_timeout")
	c.Flags().Var(&f.archive, "archive-timeout", "PostgreSQL's archive_timeout; 0: none")
	c.Flags().StringVar(&f.processes, "processes", sizing.AllRoles+"=2", "processes of ledgerfeed serve by role, such as api=2,project=2,deliver=2,console=1; all: with all roles")
	return c
}

// The most that flags may be: beyond, the costs say nothing.
const (
	mostEntries = 1e10
	mostTimes   = 1e6
)

// read checks the flags.
func (f *sizeFlags) read() (*sizing.Load, error) {
	l := f.load
	for _, n := range []struct {
		flag        string
		value       float64
		least, most float64
		want        string
	}{
		{"entries-per-day", l.EntriesPerDay, 1, mostEntries, "a number from 1 to 1e10, such as 100000"},
		{"workspaces", float64(l.Workspaces), 1, mostTimes, "a whole number from 1 to 1000000"},
		{"webhooks-per-event", l.WebhooksPerEvent, 0, mostTimes, "a number from 0, such as 1.5"},
		{"requests-per-second", l.RequestsPerSecond, 0, mostTimes, "a number from 0, such as 20"},
		{"years", l.Years, 0.01, 100, "a number from 0.01 to 100, such as 3"},
		{"peak", l.Peak, 1, 1000, "a number from 1 to 1000, such as 10"},
	} {
		if !(n.value >= n.least && n.value <= n.most) { // so that NaN is none
			return nil, cli.Usagef("--%s is %s: want %s", n.flag, strconv.FormatFloat(n.value, 'g', -1, 64), n.want)
		}
	}
	l.Retention, l.CheckpointTimeout, l.ArchiveTimeout = time.Duration(f.retention), time.Duration(f.checkpoint), time.Duration(f.archive)
	if l.Retention <= 0 {
		return nil, cli.Usagef("--retention is %s: want a time above 0, such as 30d", l.Retention)
	}
	if l.CheckpointTimeout < 30*time.Second || l.CheckpointTimeout > 24*time.Hour {
		return nil, cli.Usagef("--checkpoint-timeout is %s: want what PostgreSQL takes, 30s to 24h, such as 30m", l.CheckpointTimeout)
	}
	if l.ArchiveTimeout < 0 || l.ArchiveTimeout > 0 && l.ArchiveTimeout < time.Second {
		return nil, cli.Usagef("--archive-timeout is %s: want 0 or a time from 1s on, such as 60s", l.ArchiveTimeout)
	}
	var err error
	l.Processes, err = readProcesses(f.processes)
	return &l, err
}

// readProcesses reads "api=2,project=1".
func readProcesses(text string) (list []sizing.Processes, err error) {
	var roles []string
	for _, r := range sizing.Roles() {
		roles = append(roles, r.Name)
	}
	for part := range strings.SplitSeq(text, ",") {
		role, count, _ := strings.Cut(strings.TrimSpace(part), "=")
		if sizing.Role(role).Name == "" {
			return nil, cli.Usagef("--processes is %q: there is no role %q; want some of %s%s", text, role, strings.Join(roles, ", "), similar.Hint(role, roles))
		}
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > 1000 {
			return nil, cli.Usagef("--processes is %q: want ROLE=N with N from 1 to 1000, such as api=2,project=1", text)
		}
		list = append(list, sizing.Processes{Role: role, Count: n})
	}
	return list, nil
}

func printEstimate(w io.Writer, e *sizing.Estimate) error {
	l := &e.Load
	fmt.Fprintf(w, "%s entries a day in %d workspaces, %s webhooks to an event, %s requests a second\n\n",
		count(l.EntriesPerDay), l.Workspaces, number(l.WebhooksPerEvent), number(l.RequestsPerSecond))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "DISK after %s, with indexes\n", years(l.Years))
	for _, g := range e.Disk {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", g.Name, sizing.Bytes(g.Bytes), g.Rows)
	}
	fmt.Fprintf(t, "  the database\t%s\twith %s entries\n", sizing.Bytes(e.Database), count(e.Entries))
	fmt.Fprintf(t, "  write-ahead log\t%s\tmax_wal_size, so that checkpoints come at their time\n", sizing.Bytes(e.WAL.MaxWALSize))
	fmt.Fprintf(t, "\nWRITE-AHEAD LOG, a checkpoint every %s\n", l.CheckpointTimeout)
	fmt.Fprintf(t, "  wal_compression lz4\t%s a day\n", sizing.Bytes(e.WAL.Compressed))
	fmt.Fprintf(t, "  wal_compression off\t%s a day\n", sizing.Bytes(e.WAL.Plain))
	fmt.Fprintf(t, "\nBACKUP\n")
	fmt.Fprintf(t, "  a base backup\t%s\tbefore compression\n", sizing.Bytes(e.Database))
	fmt.Fprintf(t, "  archive, wal_compression lz4\t%s a day\t%s\n", sizing.Bytes(e.WAL.ArchivedCompressed), archiving(l.ArchiveTimeout))
	fmt.Fprintf(t, "  archive, wal_compression off\t%s a day\tfiles as they are: compress them in archive_command\n", sizing.Bytes(e.WAL.Archived))
	fmt.Fprintf(t, "\nPROCESSORS in use\ton average\tat %s times that\n", number(l.Peak))
	for _, c := range e.CPU {
		fmt.Fprintf(t, "  %s\t%.3f\t%.3f\n", c.Name, c.Average, c.Peak)
	}
	fmt.Fprintf(t, "\nPROCESSES\tmemory of each\tconnections of each, at most\n")
	for _, m := range e.Memory {
		fmt.Fprintf(t, "  %d × %s\t%.0f MiB\t%d\n", m.Count, m.Role, m.EachMiB, m.Connections)
	}
	fmt.Fprintf(t, "  all of them\t%.0f MiB\t%d; max_connections %d or more\n", e.MemoryMiB, e.Connections, e.MaxConnections)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the estimate: %w", err)
	}
	if _, err := fmt.Fprintf(w, "\nThe costs are of the demo's kind of data, measured on %s;\ndocs/operations/sizing.md says what they are of, and what is not in them.\n", e.Measured); err != nil {
		return fmt.Errorf("cannot write the estimate: %w", err)
	}
	return nil
}

// archiving says which files an archive gets.
func archiving(timeout time.Duration) string {
	if timeout == 0 {
		return "without archive_timeout; the last file is not archived before it is full"
	}
	return fmt.Sprintf("a file of 16 MiB every %s (archive_timeout), also when idle", timeout)
}

func years(n float64) string {
	if n == 1 {
		return "a year"
	}
	return number(n) + " years"
}

// number writes a number without more digits than it has.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// count writes a count in thousands or millions.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return number(math.Round(n/1e5)/10) + " million"
	case n >= 1e4:
		return number(math.Round(n/1e2)/10) + " thousand"
	}
	return number(math.Round(n))
}
