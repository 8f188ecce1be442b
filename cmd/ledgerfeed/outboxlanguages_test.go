//go:build outside

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/mariadb"
)

// TestOutboxLanguages runs the guide's example of each language on the sample product.
func TestOutboxLanguages(t *testing.T) {
	t.Parallel()
	const folder = "../../docs/guides/outbox/"
	for language, run := range map[string][]string{
		"ruby":   {"ruby", folder + "outbox.rb"},
		"php":    {"php", folder + "outbox.php"},
		"python": {"/usr/bin/python3", folder + "outbox.py"}, // the one of Debian, which has its packages
		"java":   {"java", "-cp", "/usr/share/java/postgresql.jar", folder + "Outbox.java"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			shop, open := product(t)
			conn := open()
			for _, name := range []string{"schema.sql", "data.sql", "mapping.sql", "outbox.sql"} {
				guideSQL(t, conn, name)
			}
			c := exec.CommandContext(t.Context(), run[0], run[1:]...)
			config := conn.Config()
			c.Env = append(os.Environ(), "SHOP="+shop,
				fmt.Sprintf("SHOP_DSN=host=%s port=%d dbname=%s user=%s", config.Host, config.Port, config.Database, config.User),
				fmt.Sprintf("SHOP_JDBC=jdbc:postgresql://%s/%s?user=%s", overTCP(t, config), config.Database, config.User))
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var paid bool
			if err := conn.QueryRow(t.Context(), `SELECT paid_at IS NOT NULL FROM invoices WHERE id = 2`).Scan(&paid); err != nil || !paid {
				t.Errorf("the product's own change: %t, %v", paid, err)
			}
			// TestFromYourTables shows that ingest takes what the mapping says.
			var payload string
			if err := conn.QueryRow(t.Context(), `SELECT payload::jsonb FROM watermill_ledgerfeed`).Scan(&payload); err != nil {
				t.Fatal(err)
			}
			rows := testkit.Must(conn.Query(t.Context(), `SELECT entry::text FROM ledgerfeed_entries WHERE source = 'invoices' AND key = 2 AND type = 'invoice.paid'`))(t)
			same := testkit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
			if !slices.Equal(same, []string{payload}) {
				t.Errorf("the message is\n%s\nand the mapping says\n%s", payload, same)
			}
		})
	}
}

// TestOutboxLanguagesOfMariaDB runs the guide's example of each language on a table of invoices in
// MariaDB.
func TestOutboxLanguagesOfMariaDB(t *testing.T) {
	t.Parallel()
	const folder = "../../docs/guides/outbox/"
	server := mariadb.Start(t)
	for language, run := range map[string][]string{
		"ruby":   {"ruby", folder + "mysql.rb"},
		"php":    {"php", folder + "mysql.php"},
		"python": {"/usr/bin/python3", folder + "mysql.py"},
		"java":   {"java", "-cp", "/usr/share/java/mariadb-java-client.jar", folder + "Mysql.java"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			testkit.Must(server.Open("").ExecContext(t.Context(), "CREATE DATABASE "+language))(t)
			db := server.Open(language)
			testkit.Must(db.ExecContext(t.Context(), `CREATE TABLE invoices (id INT PRIMARY KEY, paid_at TIMESTAMP NULL) ENGINE = InnoDB; INSERT INTO invoices VALUES (2, NULL);`+
				string(testkit.Must(os.ReadFile(folder+"mysql.sql"))(t))))(t)
			c := exec.CommandContext(t.Context(), run[0], run[1:]...)
			c.Env = append(os.Environ(), "SHOP_SOCKET="+server.Socket(), "SHOP_DATABASE="+language,
				fmt.Sprintf("SHOP_DSN=unix_socket=%s;dbname=%s", server.Socket(), language),
				fmt.Sprintf("SHOP_JDBC=jdbc:mariadb://%s/%s?user=root&useSsl=true&serverSslCert=%s", server.Host, language, server.CA))
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var (
				paid    bool
				payload string
				got     any
			)
			testkit.Must(0, db.QueryRowContext(t.Context(), `SELECT paid_at IS NOT NULL, payload FROM invoices, watermill_ledgerfeed`).Scan(&paid, &payload))(t)
			testkit.Must(0, json.Unmarshal([]byte(payload), &got))(t)
			want := map[string]any{
				"workspace_id": "acme", "id": "in_2_paid", "type": "invoice.paid",
				"data": map[string]any{"invoice_id": "in_2", "invoice_number": "2026-002", "client_id": "cl_2"},
			}
			if !paid || !reflect.DeepEqual(got, want) {
				t.Errorf("paid: %t; the message is %s", paid, payload)
			}
		})
	}
}

// overTCP is an address on this machine where the server of a test answers, for the JDBC driver,
// which has no Unix sockets.
func overTCP(t *testing.T, config *pgx.ConnConfig) string {
	t.Helper()
	listener := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				network, address := pgconn.NetworkAddress(config.Host, config.Port)
				out, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in) }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return listener.Addr().String()
}
