//go:build outside

package pooler

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgbouncer"
)

// Pooler is a PgBouncer before one database.
type Pooler struct {
	URL  string // for package pg, with the mode
	Bare string // without it

	t       testing.TB
	bouncer *pgbouncer.PgBouncer
}

// Start starts a PgBouncer before a database of testkit; it ends with the test.
func Start(t testing.TB, database string) *Pooler {
	t.Helper()
	at := testkit.Must(url.Parse(database))(t)
	query := at.Query()
	p := &Pooler{t: t}
	p.bouncer = testkit.Must(pgbouncer.New(filepath.Join(query.Get("host"), ".s.PGSQL.5432"), at.User.Username()))(t)
	t.Cleanup(func() {
		if err := p.bouncer.Close(); err != nil {
			t.Error(err)
		}
	})
	query.Set("host", p.bouncer.Dir)
	query.Del("options")
	at.RawQuery = query.Encode()
	p.Bare = at.String()
	p.URL = pg.ThroughPooler(p.Bare)
	p.Begin()
	return p
}

// Begin starts PgBouncer, and waits until it answers.
func (p *Pooler) Begin() {
	p.t.Helper()
	if err := p.bouncer.Begin(); err != nil {
		p.t.Fatal(err)
	}
	testkit.Eventually(p.t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.Bare)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.bouncer.Said())
		}
		return conn.Close(ctx)
	})
}

// End kills PgBouncer, and with it all connections through it.
func (p *Pooler) End() {
	p.t.Helper()
	if err := p.bouncer.End(); err != nil {
		p.t.Error(err)
	}
}
