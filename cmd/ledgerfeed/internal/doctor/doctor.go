// Package doctor tells operators how the service is: ledgerfeed doctor looks for what they have to do
// something about, and says what; ledgerfeed status shows how far the read models and webhooks are.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// check looks at one thing. It returns what is to be said; nothing at all means OK with
// no text.
type check struct {
	name string
	run  func(context.Context, *examination) ([]Finding, error)
}

// ofTables are the checks that read tables of this program's version.
func (c *check) ofTables() bool {
	switch c.name {
	case "keys", "API keys", "producers", "processes", "read models", "webhooks", "relays", "size", "old days", "free space", "restored log", "restored positions", "restored people", "restored access", "webhooks after the restore":
		return true
	}
	return false
}

// ofProcesses are the checks of serving processes.
func (c *check) ofProcesses() bool { return c.name == "processes" || c.name == "this machine" }

// checks are all of them, in the order of the report.
func checks() []check {
	return []check{
		{"settings", checkSettings},
		{"version", checkServerVersion},
		{"locks", checkLocks},
		{"encoding", checkEncoding},
		{"schema", checkSchema},
		{"clock", checkClock},
		{"privileges", checkPrivileges},
		{"durability", checkDurability},
		{"timeouts", checkTimeouts},
		{"connections", checkConnections},
		{"vacuum", checkVacuum},
		{"transactions", checkTransactions},
		{"replication", checkReplication},
		{"standbys", checkStandbys},
		{"archiving", checkArchiving},
		{"size", checkSize},
		{"dead rows", checkDeadRows},
		{"old days", checkOldDays},
		{"free space", checkFreeSpace},
		{"keys", checkKeys},
		{"API keys", checkAPIKeys},
		{"producers", checkProducers},
		{"signing key", checkSigningKey},
		{"processes", checkProcesses},
		{"this machine", checkThisMachine},
		{"notifications", checkNotifications},
		{"read models", checkReadModels},
		{"people", checkPeople},
		{"webhooks", checkWebhooks},
		{"relays", checkRelays},
		{"dead letters", checkDeadLetters},
		{"mail server", checkMailServer},
		{"identity provider", checkIdentityProvider},
	}
}

// checkTimeout bounds one check.
const checkTimeout = 15 * time.Second

// connections are the options of the checks' connections. A check does not wait long for a locked
// table, because checkLocks says who has locked it.
func connections() pg.Options {
	return pg.Options{MaxConns: 2, Settings: map[string]string{"lock_timeout": "1s"}}
}

// Command is ledgerfeed doctor.
func Command(env *operate.Env) *cobra.Command {
	var (
		afterRestore bool
		list         string // name of a file
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems, present and coming, and say what to do",
		Long: `Check the installation from the machine where you run this command, and say what to do
about each problem. The command checks the settings, the database, the keys, the serving
processes, the read models and the webhooks. It also checks the servers for notifications,
mail and sign-in. It changes nothing. The exit status is 0 if there is no problem, even
with warnings, and 1 if there is one.

The command checks every process that is connected to the database, on any machine. It
asks the process on this machine, at LEDGERFEED_ADMIN_LISTEN, whether it is ready.

Use --after-restore before you start the service on a restored backup. The command then
also says whether the backup is whole, what producers, followers and receivers will notice,
and whether somebody is back whom ledgerfeed append --forgotten has to forget again.`,
		Example: "  ledgerfeed doctor\n  ledgerfeed doctor --json\n  ledgerfeed doctor --after-restore",
		Args:    cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) (err error) {
			if list != "" && !afterRestore {
				return cli.Usagef("--list needs --after-restore")
			}
			db, err := env.OpenDatabase(ctx, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close(ctx)) }()
			pool, err := pg.Open(ctx, db.URL, connections())
			if err != nil {
				return err
			}
			defer pool.Close()
			all := checks()
			if afterRestore {
				all = slices.DeleteFunc(all, func(c check) bool { return c.ofProcesses() }) // none is started yet
				all = append(all, checksAfterRestore()...)
			}
			findings := examine(ctx, &examination{env, db, list, pool}, all)
			if err := env.Print(map[string]any{"findings": findings}, func(out io.Writer) error { return write(out, findings) }); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Level == Error {
					return &cli.ExitError{Status: cli.ExitFailed}
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&list, "list", "", "with --after-restore: the file that keeps who was forgotten (default forgotten.ndjson in the data directory)")
	c.Flags().BoolVar(&afterRestore, "after-restore", false, "also check a restored backup, and say what others will notice")
	return c
}

// examine runs checks. A check that cannot be made is a finding, too. If the database lacks the
// tables of this version, the checks of what is in them are left out.
func examine(ctx context.Context, x *examination, all []check) (list []Finding) {
	unfit := false
	for _, c := range all {
		if unfit && c.ofTables() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		found, err := c.run(limited, x)
		cancel()
		switch {
		case pg.Locked(err):
			found = append(found, Finding{Level: Error, Text: "this check could not run: a session holds a lock on a table that it reads", Do: "see the check locks, and run ledgerfeed doctor again without that lock"})
		case err != nil:
			found = append(found, Finding{Level: Error, Text: err.Error(), Do: "this check could not run: fix the error, and run ledgerfeed doctor again"})
		}
		if len(found) == 0 {
			found = []Finding{{Level: OK}}
		}
		for i := range found {
			found[i].Check = c.name
			unfit = unfit || c.name == "schema" && found[i].Level == Error
		}
		list = append(list, found...)
	}
	return list
}

func write(out io.Writer, list []Finding) error {
	counts := map[Level]int{}
	err := cli.Table(out, "", list, func(f *Finding) string {
		counts[f.Level]++
		line := strings.ToUpper(string(f.Level)) + "\t" + f.Check + "\t" + f.Text
		if f.Do != "" {
			line += "\n\t\t→ " + f.Do
		}
		return line
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s, %s\n", texts.Count(counts[Error], "error", "errors"), texts.Count(counts[Warning], "warning", "warnings"))
	return err
}

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK      Level = "ok"      // nothing to do
	Warning Level = "warning" // something will go wrong, or is worse than it could be
	Error   Level = "error"   // something is wrong now
)

// Finding is what one check has found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do"` // what to do; empty with OK
}

// examination is what checks look at.
type examination struct {
	env  *operate.Env
	db   *operate.Database
	list string // name of the file that keeps who was forgotten; empty: the one in the data directory

	pool pg.DB
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Text: fmt.Sprintf(format, args...)}}
}
