//go:build outside && unix

package main

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/pgserver"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

// tryDatabaseFull has a server of its own, on which an account can be bounded.
func tryDatabaseFull(x *tried) {
	server := pgserver.NewHost(x.T).Server("full", "fsync=off", "max_connections=200")
	server.Initialize()
	server.Begin()
	x.url = server.URL(pgserver.Administrator, "postgres")
	succeed(x.T, x.url, "migrate")
	succeed(x.T, x.url, "migrate", "--grants", "apply")
	server.Execute("postgres", "CREATE ROLE billing LOGIN IN ROLE "+migrations.RoleService)
	x.conn = testkit.Must(pgx.Connect(x.Context(), x.url))(x.T)
	succeed(x.T, x.url, "workspace", "create", "--id", "acme", "--name", "Acme")
	x.append("invoice.recorded", `{"invoice_id":"in_1","number":"1","client_id":"cl_1","period":"2026-10","gross_amount":"420.00","currency":"EUR"}`)
	x.url = server.URL("billing", "postgres")
	x.serve("api,project")
	x.url = server.URL(pgserver.Administrator, "postgres")
	keys := []string{newCaller(x.T, x.url, x.api, "acme").key}
	for i := range 4 { // one workspace alone does not get all connections
		id := fmt.Sprintf("acme-%d", i)
		succeed(x.T, x.url, "workspace", "create", "--id", id, "--name", id)
		keys = append(keys, newCaller(x.T, x.url, x.api, id).key)
	}
	x.runAlso("status", "--wait")
	sound := scrapeOf(x.T, x.admin)
	x.exec(`ALTER ROLE billing CONNECTION LIMIT 3`) // those that there are stay
	after := scrapeOf(x.T, x.admin)
	x.judge("sound", sound, after, false)
	failed := x.crowd(20, keys...)()
	broken := x.until(`ledgerfeed_pool_refused_total`, above(0))
	x.judge("broken", after, broken, true)
	x.runs("ledgerfeed status", cli.ExitDone, "LIMIT")
	x.hasOnItsPage("`ALTER ROLE … CONNECTION LIMIT`")
	x.exec(`ALTER ROLE billing CONNECTION LIMIT -1`)
	// Processes that waited have opened what was refused before.
	x.until(`ledgerfeed_pool_waiting{pool="api"`, zero)
	before := scrapeOf(x.T, x.admin)
	failed += x.crowd(20, keys...)()
	x.judge("mended", before, scrapeOf(x.T, x.admin), false)
	if failed > 0 {
		x.Errorf("%d requests failed, which should wait only", failed)
	}
}
