package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// database is where a command works: at DATABASE_URL, or in the program's own
// PostgreSQL.
type database struct {
	url   string
	local *localpg.Server // nil with a DATABASE_URL
}

// openServer finds the database, and starts it if it is the program's own.
func (p *program) openServer(ctx context.Context) (*database, error) {
	if p.settings.DatabaseURL != "" {
		return &database{url: p.settings.DatabaseURL}, nil
	}
	server, err := localpg.Open(ctx, localpg.Config{DataDir: p.settings.DataDir, Logger: p.logger})
	if err != nil {
		return nil, fmt.Errorf("the program's own PostgreSQL: %w", err)
	}
	return &database{url: server.URL(), local: server}, nil
}

// leavePatience bounds the wait for the program's own PostgreSQL to stop.
const leavePatience = 30 * time.Second

func (d *database) close(ctx context.Context) error {
	if d.local == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer cancel()
	if err := d.local.Close(ctx); err != nil {
		return fmt.Errorf("leave the program's own PostgreSQL: %w", err)
	}
	return nil
}

// gone is closed when the program's own PostgreSQL ends unasked; nil, which
// never is, with a DATABASE_URL.
func (d *database) gone() <-chan struct{} {
	if d.local == nil {
		return nil
	}
	return d.local.Done()
}

// prepare makes the schema fit. A fresh database and the program's own are
// migrated by whichever command comes first; another one, which other programs
// may be using, only by serve and migrate.
func (d *database) prepare(ctx context.Context, migrate bool) error {
	if !migrate && d.local == nil {
		fit, err := migrations.Fit(ctx, d.url)
		if err != nil {
			return err
		}
		switch fit {
		case migrations.Current, migrations.Newer:
			return nil
		case migrations.Older:
			return errors.New("the database's schema is older than this program: run ledgerfeed migrate")
		case migrations.Absent:
		}
	}
	_, err := migrations.Up(ctx, d.url)
	return err
}

// workbench is an open database with what most commands need.
type workbench struct {
	*database
	pool     *pgxpool.Pool
	notifier *eventlog.Notifier
	log      *eventlog.Log
}

// withLog opens the database, does the work, and closes it again. What was
// appended is announced to other processes before it returns.
func (p *program) withLog(ctx context.Context, work func(*workbench) error) (err error) {
	d, err := p.openServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if err := d.prepare(ctx, false); err != nil {
		return err
	}
	w, err := p.workbench(ctx, d)
	if err != nil {
		return err
	}
	defer w.pool.Close()
	err = work(w)
	if flushErr := w.notifier.Flush(context.WithoutCancel(ctx)); err == nil && flushErr != nil {
		p.logger.WarnContext(ctx, "running programs find the new entries a little later", "error", flushErr)
	}
	return err
}

func (p *program) workbench(ctx context.Context, d *database) (*workbench, error) {
	pool, err := pg.Open(ctx, d.url, pg.Options{MaxConns: 8})
	if err != nil {
		return nil, err
	}
	notifier := eventlog.NewNotifier(pool, p.logger)
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: p.clock, Notify: notifier.Notify})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &workbench{database: d, pool: pool, notifier: notifier, log: log}, nil
}
