package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

const (
	demoWorkspace = "demo-agency"
	demoName      = "Harbour Lane Agency"
	demoSeed      = 7
	demoYears     = 2

	// demoPace is the time between two living entries.
	demoPace = 3 * time.Second
)

func (p *program) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Everything on this machine, with an agency of two years that keeps living",
		Long: `Start everything on this machine: a PostgreSQL of the program's own (or the
one at DATABASE_URL), a workspace with two years of an agency's billing that
keeps living, and the service. Prints keys and lines to try. Ctrl-C stops all;
the next start goes on where this one was.`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) (err error) {
			if os.Getenv("LEDGERFEED_LOG_LEVEL") == "" {
				p.settings.LogLevel = slog.LevelWarn.String() // what the demo prints is for reading
				p.logger = p.settings.logger(p.errOut)
			}
			p.settings.DrainDelay = 0 // nobody spreads requests
			d, err := p.openServer(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.close(ctx)) }()
			if err := d.prepare(ctx, true); err != nil {
				return err
			}
			return p.runDemo(ctx, d)
		}),
	}
}

func (p *program) runDemo(ctx context.Context, d *database) error {
	w, err := p.workbench(ctx, d)
	if err != nil {
		return err
	}
	defer w.pool.Close()
	dir := p.settings.DataDir
	if d.local != nil {
		dir = d.local.DataDir()
	}
	receiver, err := p.newDemoReceiver(ctx, dir)
	if err != nil {
		return err
	}
	s, err := p.newService(ctx, d, allRoles())
	if err != nil {
		return err
	}
	demo := &demonstration{program: p, service: s, workbench: w, receiver: receiver, dir: dir}
	s.add("webhook receiver", receiver.Serve)
	s.add("demo", demo.run)
	return s.run(ctx)
}

// demonstration is the part of a service that makes it worth looking at.
type demonstration struct {
	program   *program
	service   *service
	workbench *workbench
	receiver  *demoReceiver
	dir       string // the data directory really used
	config    scenario.Config
	keys      demoKeys
}

func (m *demonstration) run(ctx context.Context) error {
	err := m.prepare(ctx)
	if err == nil {
		err = m.live(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted, as a demo is meant to end
	}
	return err
}

func (m *demonstration) prepare(ctx context.Context) error {
	log := m.service.log
	created, err := m.workspace(ctx)
	if err != nil {
		return err
	}
	m.config = scenario.Config{
		WorkspaceID: demoWorkspace, Seed: demoSeed,
		Start: created.AddDate(-demoYears, 0, 0), End: created,
	}
	if err := m.appendHistory(ctx, log); err != nil {
		return err
	}
	if err := m.program.awaitProjected(ctx, m.workbench, demoWorkspace, time.Minute); err != nil {
		return err
	}
	if m.keys, err = m.findKeys(ctx); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	return m.welcome(ctx)
}

// workspace makes the demo's workspace at the first start, and says when that
// was: its two years end there, at every start.
func (m *demonstration) workspace(ctx context.Context) (time.Time, error) {
	log := m.service.log
	err := pg.InTx(ctx, m.workbench.pool, func(tx pgx.Tx) error {
		return log.CreateWorkspace(ctx, tx, eventlog.Workspace{ID: demoWorkspace, Name: demoName, NotifyEmail: "finance@harbour-lane.example"})
	})
	var exists *eventlog.WorkspaceExistsError
	if err != nil && !errors.As(err, &exists) {
		return time.Time{}, err
	}
	w, err := log.Workspace(ctx, demoWorkspace)
	return w.CreatedAt.Truncate(time.Millisecond), err
}

// appendHistory appends what of the two years is not in the log yet: all of
// it at the first start, the rest after one that was interrupted.
func (m *demonstration) appendHistory(ctx context.Context, log *eventlog.Log) error {
	g, err := scenario.New(m.config)
	if err != nil {
		return err
	}
	head, err := log.Head(ctx, demoWorkspace)
	if err != nil {
		return err
	}
	var (
		drafts []domain.Draft
		line   []byte
		n      int64
	)
	flush := func() error {
		_, err := log.Append(ctx, drafts...)
		drafts = drafts[:0]
		return err
	}
	for {
		l, ok := g.Next()
		if !ok {
			return flush()
		}
		n++
		if n <= head.Position {
			continue
		}
		line = l.AppendNDJSON(line[:0])
		d, err := domain.DecodeDraft(line)
		if err != nil {
			return fmt.Errorf("the demo's history, entry %d: %w", n, err)
		}
		if drafts = append(drafts, d); len(drafts) == appendBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// live appends an entry every few seconds.
func (m *demonstration) live(ctx context.Context) error {
	head, err := m.service.log.Head(ctx, demoWorkspace)
	if err != nil {
		return err
	}
	living := scenario.NewLiving(m.config, head.Position)
	pace := time.NewTicker(demoPace)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		// Its publish time is the moment of appending, as for any producer; the
		// scenario's own clock only dates the work.
		l := living.Next(m.program.clock())
		d, err := domain.DecodeDraft(l.AppendNDJSON(nil))
		if err != nil {
			return fmt.Errorf("a living entry: %w", err)
		}
		d.CreatedAt = time.Time{}
		r, err := m.service.log.Append(ctx, d)
		if err != nil {
			return err
		}
		fmt.Fprintf(m.program.out, "%s  appended %-24s %s at position %d\n",
			r[0].CreatedAt.Local().Format(time.TimeOnly), d.Type, r[0].ID, r[0].Position)
	}
}

// permissionsWithoutPay are all that a key can have without seeing pay.
func permissionsWithoutPay() access.Permissions {
	var list []access.Permission
	for _, p := range access.AllPermissions() {
		if p != access.PayRead && p != access.MarginRead {
			list = append(list, p)
		}
	}
	return access.PermissionsOf(list...)
}

// demoKeysFile keeps the demo's own keys between starts, so that lines that
// were pasted yesterday work today. No other key is ever kept in clear.
func (m *demonstration) demoKeysFile() string { return filepath.Join(m.dir, "demo-keys.json") }
