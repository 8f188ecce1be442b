package readapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// planNode is what the tests look at in a plan.
type planNode struct {
	Type    string     `json:"Node Type"`
	Table   string     `json:"Relation Name"`
	Index   string     `json:"Index Name"`
	Rows    float64    `json:"Actual Rows"`
	Removed float64    `json:"Rows Removed by Filter"`
	Loops   float64    `json:"Actual Loops"`
	Plans   []planNode `json:"Plans"`
}

func (n *planNode) walk(each func(*planNode)) {
	each(n)
	for i := range n.Plans {
		n.Plans[i].walk(each)
	}
}

// fillTables makes a workspace with 20,000 rows in some tables, by default in all, and a
// small one.
func (s *stand) fillTables(names ...string) {
	s.t.Helper()
	var b strings.Builder
	for w, rows := range map[string]int{"big": 20_000, "small": 50} {
		fmt.Fprintf(&b, "SELECT workspace_create('%[1]s', '%[1]s', now());", w)
		for table, columns := range largeTables() {
			if len(names) == 0 || slices.Contains(names, table) {
				fmt.Fprintf(&b, "INSERT INTO "+table+" SELECT '%[1]s', "+columns+" FROM generate_series(1, %[2]d) n;", w, rows)
			}
		}
	}
	b.WriteString("ANALYZE;")
	testkit.AsOwner(s.t, s.pool, b.String())
}

// largeTables are the columns of each table after workspace_id in row n of fillTables.
func largeTables() map[string]string {
	return map[string]string{
		"invoice":               `'in_' || n, n, n %% 50 <> 0, 'cl_' || n %% 200, 'co_' || n %% 100, '2026-' || n %% 10, (array['not_ready','sent','paid'])[n %% 3 + 1], CASE WHEN n %% 40 = 0 THEN 'package' ELSE 'invoice' END, '{"id":1', ',"a":1', ',"b":1', 'INV-' || n, false, n %% 25 = 0, '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05', 'EUR', n, n, n, n, n, n, n, n`,
		"charge":                `'ch_' || n, n, n %% 3 <> 0, 'cl_' || n %% 200, 'co_' || n %% 100, 'in_' || n %% 400, '2026-' || n %% 10, '{"id":1', ',"a":1', 'sent', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05', 'EUR', n, n`,
		"time_entry":            `'te_' || n, n, 'cl_' || n %% 200, 'co_' || n %% 100, 'in_' || n %% 400, '2026-' || n %% 10, (array['approved','sent','paid'])[n %% 3 + 1], '{"id":1', ',"a":1', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05', 'EUR', n, n, n, n`,
		"removed_charge":        `'rc_' || n, n, 'cl_' || n %% 200, 'co_' || n %% 100, '2026-' || n %% 10, '{"id":1', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05'`,
		"removed_billed_charge": `'rc_' || n, n, 'cl_' || n %% 200, 'co_' || n %% 100, '2026-' || n %% 10, '{"id":1', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05'`,
		"removed_time_entry":    `'rt_' || n, n, 'cl_' || n %% 200, 'co_' || n %% 100, '2026-' || n %% 10, (array['approved','sent','paid'])[n %% 3 + 1], '{"id":1', '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05'`,
		"payment":               `'pm_' || n, n, CASE WHEN n %% 2 = 0 THEN 'received_from_client' ELSE 'paid_to_contractor' END, 'cl_' || n %% 200, 'co_' || n %% 100, '{"id":1', 'in_' || n %% 400, '2026-' || to_char(n %% 10 + 1, 'FM00') || '-05', 'EUR', n`,
		"client":                `'cl_' || n, n, '{"id":1'`,
		"contractor":            `'co_' || n, n, '{"id":1'`,
		"client_credit":         `'cl_' || n, n, '{"balance":1'`,
		"credit_move":           `'cl_' || n %% 2 * n %% 200, 'cr_' || n, n, '{"id":1'`,
	}
}

// planOf runs a statement as the program prepares it and returns its plan.
func (s *stand) planOf(tx pgx.Tx, sql, arguments string) planNode {
	s.t.Helper()
	ctx := s.t.Context()
	if _, err := tx.Exec(ctx, "PREPARE the_statement AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.t.Fatalf("%v in %s", err, sql)
	}
	var raw string
	err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE the_statement ("+arguments+")", pgx.QueryExecModeSimpleProtocol).Scan(&raw)
	if err != nil {
		s.t.Fatalf("%v in %s", err, sql)
	}
	if _, err := tx.Exec(ctx, "DEALLOCATE the_statement"); err != nil {
		s.t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil || len(plans) != 1 {
		s.t.Fatalf("%v in %s", err, raw)
	}
	return plans[0].Plan
}

// TestPlans: no statement sorts or reads a table through, and one with at most
// one filter reads no more rows than it gives, however large the workspace. A whole list
// is read in its order, too, so that its first row comes at once.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.fillTables()
	values := map[string]string{"period": "'2026-7'", "client_id": "'cl_37'", "contractor_id": "'co_37'", "status": "'sent'", "type": "'invoice'", "direction": "'received_from_client'"}
	tx := testkit.Must(s.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, statement := range readapi.Statements() {
		if (statement.Days || statement.Sums || statement.Open) && len(statement.Filters) > 1 {
			continue // what bounds them is one filter
		}
		for _, w := range []string{"big", "small"} {
			arguments := fmt.Sprintf("'%s', 'in_10'", w)
			if !statement.One {
				limit := "51"
				if statement.Whole {
					limit = "NULL"
				}
				arguments = fmt.Sprintf("'%s', 10, 'x', NULL, %s, 10, '\\x00'", w, limit)
				switch {
				case statement.Sums:
					arguments = "'" + w + "'"
				case statement.Turned:
					arguments = fmt.Sprintf("'%s', 10000, 'x', 51", w)
				}
				for _, column := range statement.Filters {
					arguments += ", " + values[column]
				}
				if statement.Days {
					arguments += ", '2026-07-01', '2026-07-31', '2026-06-01'"
				}
			}
			s.checkPlan(tx, statement, arguments)
		}
	}
	for _, of := range [][3]string{
		{"charge", "invoice_id", "in_7"}, {"payment", "invoice_id", "in_7"}, {"payment", "contractor_id", "co_37"}, {"time_entry", "invoice_id", "in_7"}, {"invoice", "number", "INV-7"}, {"client_credit", "id", "cl_7"}, {"time_entry", "id", "te_7"},
	} {
		s.checkPlan(tx, readapi.Statement{Path: "with " + of[1], Table: of[0], Days: true, SQL: readapi.WithStatement(of[0], of[1])}, "'big', 9223372036854775807, '', 51, '"+of[2]+"'")
	}
	for _, table := range []string{"client", "contractor"} {
		s.checkPlan(tx, readapi.Statement{Path: "by name", Table: table, Whole: true, SQL: readapi.NamedStatement(table)}, "'big', 9223372036854775807, '', 51, 'a'")
	}
	s.checkPlan(tx, readapi.Statement{Path: "by document", Table: "invoice", Whole: true, SQL: readapi.NumberedStatement()}, "'big', 9223372036854775807, '', 51, 'a'")
	for _, below := range []string{"9223372036854775807", "10000"} {
		s.checkPlan(tx, readapi.Statement{Path: "credit", Table: "credit_move", SQL: readapi.CreditStatement()}, "'big', 'cl_0', 0, "+below+", 15000, 51, 10, '\\x00'")
	}
}

func (s *stand) checkPlan(tx pgx.Tx, statement readapi.Statement, arguments string) {
	s.t.Helper()
	root := s.planOf(tx, statement.SQL, arguments)
	read := 0.0
	root.walk(func(n *planNode) {
		switch {
		case strings.Contains(n.Type, "Sort") && (statement.Days || statement.Sums): // of a page's rows for each month, or of sums
		case strings.Contains(n.Type, "Sort"), n.Type == "Seq Scan", strings.HasPrefix(n.Type, "Bitmap"):
			s.t.Errorf("%s by %v: %s of %s", statement.Path, statement.Filters, n.Type, n.Table)
		case (n.Table == statement.Table || strings.HasPrefix(n.Table, "removed_")) && n.Loops > 0:
			read += n.Rows + n.Removed
		}
	})
	switch {
	case statement.Days && !statement.Whole && (statement.Sums || statement.Open || len(statement.Filters) > 0):
		most := 2_100.0 // a month has 2,000 rows, a party or a period fewer
		if statement.Removed {
			most *= 2 // from two tables
		}
		if read > most {
			s.t.Errorf("%s by %v reads %.0f rows for a month", statement.Path, statement.Filters, read)
		}
		return
	case statement.Sums, statement.Open && len(statement.Filters) > 0:
		return
	}
	if index := usualPairs()[statement.Table+" "+strings.Join(statement.Filters, " ")]; index != "" {
		used := ""
		root.walk(func(n *planNode) {
			if n.Table == statement.Table {
				used = n.Index
			}
		})
		if used != index {
			s.t.Errorf("%s by %v reads the index %s, not %s", statement.Path, statement.Filters, used, index)
		}
	}
	most := 51.0
	if statement.Days {
		most = 101 // each month gives so many at most
		if statement.Removed {
			most *= 2 // each table does
		}
	}
	if !statement.Whole && len(statement.Filters) <= 1 && read > 3*most { // a third of the charges is hidden, half of the payments
		s.t.Errorf("%s by %v reads %.0f rows for a page of 50", statement.Path, statement.Filters, read)
	}
}

// usualPairs are the pairs of filters that an index serves, and its name.
func usualPairs() map[string]string {
	return map[string]string{
		"time_entry client_id status":     "time_entry_client_status",
		"time_entry period client_id":     "time_entry_client_period",
		"time_entry period contractor_id": "time_entry_contractor_period",
		"invoice client_id status":        "invoice_client_status",
		"invoice period client_id":        "invoice_client_period",
		"invoice period status":           "invoice_period_status",
		"charge period client_id":         "charge_client_period",
		"payment client_id direction":     "payment_client_direction",
	}
}
