package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestTenConnections: a process with all roles and ten connections appends, projects, reads,
// reads whole lists and delivers, all at the same time, and never has an eleventh connection.
func TestTenConnections(t *testing.T) {
	t.Parallel()
	const most, rounds, each = 10, 8, 60
	database := testkit.NewDatabase(t)
	succeed(t, database, "workspace", "create", "--id", "acme", "--name", "acme")
	receiver := testkit.NewReceiver(t, nil)
	settings := []string{
		fmt.Sprintf("LEDGERFEED_CONNECTIONS=%d", most), "LEDGERFEED_WEBHOOK_ALLOW=127.0.0.0/8", "LEDGERFEED_WEBHOOK_CA_FILE=" + testkit.CAFile(t),
	}
	created := command(t, database, "webhook", "create", "--workspace", "acme", "--url", receiver.URL, "--events", "all")
	created.Env = append(created.Env, settings...)
	if r := runCommand(t, created); r.code != cli.ExitDone {
		t.Fatalf("%+v", r)
	}
	serve := command(t, database, "serve")
	serve.Env = append(serve.Env, settings...)
	process := startProcess(t, serve)
	api := apiOf(process)
	key := newReader(t, database, api, "acme", endpointScopes).key
	watching := testkit.Must(pgx.Connect(t.Context(), database))(t)
	t.Cleanup(func() { _ = watching.Close(t.Context()) })

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 12}}
	t.Cleanup(client.CloseIdleConnections)
	ctx, appended := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	for i := range 12 {
		accept := []string{"application/json", "application/json", "application/x-ndjson"}[i%3]
		group.Go(func() error {
			for ctx.Err() == nil {
				status, text, err := getOnce(ctx, client, api+"/v1/clients", key, accept)
				switch {
				case err != nil && ctx.Err() != nil:
				case err != nil:
					return err
				// As many whole lists as a workspace may read are read already, or no connection is left for one.
				case accept != "application/json" && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
				case status != http.StatusOK:
					return fmt.Errorf("%s: %d %s", accept, status, text)
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for ctx.Err() == nil {
			var n int
			if err := watching.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'ledgerfeed serves %'`).Scan(&n); err != nil {
				return err
			}
			if n > most {
				return fmt.Errorf("%d connections of %d", n, most)
			}
		}
		return nil
	})
	for round := range rounds {
		var lines strings.Builder
		for i := range each {
			n := round*each + i
			fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"cl_%d","name":"N"}}`+"\n", n)
			fmt.Fprintf(&lines, `{"workspace_id":"acme","type":"invoice.issued","data":{"invoice_id":"in_%[1]d","invoice_number":"%[1]d","amount":"420.00"}}`+"\n", n)
		}
		c := command(t, database, "append")
		c.Stdin = strings.NewReader(lines.String())
		if r := runCommand(t, c); r.code != cli.ExitDone {
			t.Errorf("%+v", r)
		}
	}
	succeed(t, database, "status", "--wait")
	testkit.Eventually(t, func() error {
		if n := receiver.Count(); n < rounds*each {
			return fmt.Errorf("%d deliveries of %d", n, rounds*each)
		}
		return ctx.Err()
	})
	appended()
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v\n%s", err, process.log)
	}
	succeed(t, database, "verify")
}

// getOnce reads an answer to its end.
func getOnce(ctx context.Context, client *http.Client, url, key, accept string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())
}
