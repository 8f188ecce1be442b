// Package supportbundle is ledgerfeed support-bundle: an archive with what somebody needs
// to help with an installation, and with nothing that its operator may not give away.
//
// What is put in is chosen piece by piece: counts, sizes, ages, states, the names of this
// program's own tables and settings. Texts that others wrote are left out, even where they
// would help: errors of PostgreSQL, for one, quote values.
package supportbundle

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Command is ledgerfeed support-bundle.
func Command(env *cli.Env) *cobra.Command {
	var (
		file       string
		goroutines bool
	)
	c := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect what helps somebody to help, without secrets and customers' data",
		Long: `Collect what helps somebody to help with this installation into one archive: its
version and settings, what doctor finds, how far the log, the read models and the
webhooks are, what PostgreSQL says about its settings, tables, sessions and locks,
and the metrics of the process at LEDGERFEED_ADMIN_LISTEN.

It has no secrets, no data of customers, no ids or names of workspaces, webhooks and
accounts, no addresses, no texts of statements or errors, and no log lines. Workspaces
and webhooks have made-up names, the same in every archive of this database. The file
manifest.json says what is in the archive and what was left out.

Nothing is changed. A part that cannot be read leaves its reason in the manifest.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			made := env.Clock().UTC().Truncate(time.Second)
			if file == "" {
				file = "ledgerfeed-support-" + made.Format("20060102T150405Z") + ".tar.gz"
			}
			m, contents := collect(ctx, env, made, goroutines)
			if err := save(file, m, contents); err != nil {
				return err
			}
			return env.Print(m, func(out io.Writer) error { return m.write(out, file) })
		}),
	}
	c.Flags().StringVarP(&file, "output", "o", "", "write to this file, which must not exist (default ledgerfeed-support-TIME.tar.gz)")
	c.Flags().BoolVar(&goroutines, "goroutines", false, "the process's goroutines, too, where LEDGERFEED_PPROF is true")
	return c
}

// collect gathers all parts, in their order, one after the other.
func collect(ctx context.Context, env *cli.Env, made time.Time, goroutines bool) (*manifest, [][]byte) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	s, err := open(ctx, env)
	if s.db != nil {
		defer func() { _ = s.db.Close(ctx) }() // the bundle is of before
	}
	if s.pool != nil {
		defer s.pool.Close()
	}
	m := newManifest(made, err)
	var contents [][]byte
	for _, p := range parts(goroutines) {
		limited, end := context.WithTimeout(ctx, p.timeout)
		content, err := p.gather(limited, s)
		end()
		if len(content) > maxPart {
			content, err = nil, fault(fmt.Sprintf("it would have %d bytes, more than %d", len(content), maxPart))
		}
		if err != nil {
			content = nil
		}
		m.Parts = append(m.Parts, entry{File: p.file, About: p.about, Bytes: len(content), Error: kindOf(err)})
		contents = append(contents, content)
	}
	return m, contents
}

// open connects to the database, for reading alone. Without it the source has what else
// there is.
func open(ctx context.Context, env *cli.Env) (*source, error) {
	s := &source{env: env}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, err := env.OpenDatabase(ctx, false)
	if err != nil {
		return s, fault("there is no database to read, or it cannot be started")
	}
	s.db = db
	s.pool, err = pg.Open(ctx, db.URL, pg.Options{MaxConns: 2, CancelStatements: true, Settings: map[string]string{
		"default_transaction_read_only": "on", "statement_timeout": "5s", "lock_timeout": "1s",
	}})
	if err != nil {
		return s, err
	}
	s.hide, err = readPseudonyms(ctx, s.pool)
	return s, err
}

// parts are all parts, in the order of the archive.
func parts(goroutines bool) []part {
	list := []part{
		{"version.json", "version, commit and Go of this program", partTimeout, func(context.Context, *source) ([]byte, error) { return write(buildinfo.Read()) }},
		{"settings.json", "which settings are set, and the values that are numbers, times and switches", partTimeout, gatherSettings},
		{"doctor.json", "what ledgerfeed doctor finds", doctorTimeout, gatherDoctor},
		{"readyz.json", "whether the process at LEDGERFEED_ADMIN_LISTEN is ready", partTimeout, gatherReady},
		{"metrics.txt", "its metrics", partTimeout, gatherMetrics},
	}
	if goroutines {
		list = append(list, part{"goroutines.txt", "its goroutines", partTimeout, gatherGoroutines})
	}
	for _, q := range append(serverQuestions(), serviceQuestions()...) {
		list = append(list, part{q.file, q.about, partTimeout, q.gather})
	}
	return list
}
