package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Workspaces are the unit by which the tables can be distributed over several servers
// (docs/design.md). A statement that locks or writes rows of one workspace runs on the
// server that has them; one that does not say which workspace it is about asks all of
// them, and waits for the slowest, or is refused.

var (
	// writes finds statements that lock or write.
	writes = regexp.MustCompile(`(?i)\bFOR (NO KEY )?(UPDATE|SHARE)\b|\bUPDATE\s+[a-z_…]+\s+(AS\s+)?([a-z]\s+)?SET\b|\bDELETE\s+FROM\b|\bINSERT\s+INTO\b`)

	// names finds the workspace of a statement: a parameter, or, in an INSERT, a column.
	names = regexp.MustCompile(`workspace_id = (\$\d+|@workspace\b|'\*'|ANY \(\$\d+)|INSERT\s+INTO\s+[a-z_…]+\s+(AS\s+[a-z]\s+)?\(\s*workspace_id\b`)
)

// statement is an SQL text of the program.
type statement struct {
	where string // the file, and the declaration in it
	text  string // with … for parts that are not constant text
}

// statementsIn lists the texts of a file that lock or write.
func statementsIn(file *source) (list []statement) {
	for _, declaration := range file.syntax.Decls {
		inside := map[ast.Node]bool{} // parts of a text that was seen whole
		ast.Inspect(declaration, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok || inside[n] {
				return true
			}
			text, constant := flatten(e, inside)
			if constant && writes.MatchString(text) {
				list = append(list, statement{file.path + ": " + declared(declaration), text})
			}
			return true
		})
	}
	return list
}

// flatten puts the parts of a text together, and notes them. False: it is no text.
func flatten(e ast.Expr, inside map[ast.Node]bool) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "…", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "…", false
		}
		left, leftText := flatten(e.X, inside)
		right, rightText := flatten(e.Y, inside)
		inside[e.X], inside[e.Y] = true, true
		return left + right, leftText || rightText
	}
	return "…", false
}

// declared names a declaration.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return "a declaration"
}

// withoutWorkspace are the declarations with statements that name no workspace.
func withoutWorkspace() map[string]string {
	const (
		byAge    = "removes what is old, of all workspaces; where a server is away it goes on when it is back"
		many     = "one statement for many workspaces, named by the rows that it joins"
		instance = "webhook_instance belongs to no workspace"
		sample   = "made for pictures and measurements, never for customers"
	)
	return map[string]string{
		"cmd/ledgerfeed/internal/demo/product.go: save":                  "the table of another product",
		"cmd/ledgerfeed/internal/doctor/restore.go: checkRestoredAccess": "a sentence for operators",
		"delivery/dispatch/claim.go: renewLease":                         instance,
		"delivery/dispatch/claim.go: takeLease":                          instance,
		"delivery/dispatch/record.go: moveCursors":                       many,
		"delivery/dispatch/record.go: queueHealth":                       many,
		"delivery/dispatch/dispatcher.go: forgetTraces":                  byAge,
		"delivery/mail/mail.go: keepUnsent":                              byAge,
		"internal/ingest/deadletters.go: Settle":                         "a table of the producer's",
		"internal/ingest/mysql.go: Settle":                               "a table of the producer's",
		"internal/console/sample/sample.go: makeRequests":                sample,
		"internal/console/sample/sample.go: makeWebhooks":                sample,
		"internal/rollup/write.go: RemoveOld":                            byAge,
		"projections/replay/shadow.go: saveDirty":                        "a temporary table, of the connection that works on one workspace",
		"projections/table/mass.go: changeSQL":                           "made of parts; match compares the workspace with $1",
		"projections/table/statements.go: dropSQL":                       "made of parts; alongKey compares the workspace with $1",
		"projections/table/statements.go: statements":                    "made of parts, each of which begins with the workspace",
		"readapi/access/limiter.go: exchange":                            byAge,
		"readapi/requestlog/store.go: removeOld":                         byAge,
	}
}

// TestStatementsNameTheirWorkspace: whatever locks or writes says of which workspace, or
// stands in the list with the reason.
func TestStatementsNameTheirWorkspace(t *testing.T) {
	t.Parallel()
	known, found, total := withoutWorkspace(), map[string][]string{}, 0
	for _, file := range tree(t) {
		if file.test() || !servesProduction(file.path) {
			continue
		}
		for _, s := range statementsIn(file) {
			total++
			if !names.MatchString(s.text) {
				found[s.where] = append(found[s.where], s.text)
			}
		}
	}
	if total == 0 {
		t.Error("no statements found: the test does not see them")
	}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if known[where] == "" {
			t.Errorf("%s locks or writes without naming a workspace:\n%s", where, strings.Join(found[where], "\n"))
		}
	}
	for where := range known {
		if found[where] == nil {
			t.Errorf("%s is in the list of those that name no workspace, and has no such statement", where)
		}
	}
}

var (
	// changes finds statements that change rows that exist.
	changes = regexp.MustCompile(`(?i)\bUPDATE\s+[a-z_…]+\s+(?:AS\s+)?(?:[a-z]\s+)?SET\b|\bDELETE\s+FROM\s+[a-z_…]+|\bDO\s+UPDATE\b`)

	// volatile finds functions that give another value each time they are called.
	volatile = regexp.MustCompile(`(?i)\b(clock_timestamp|timeofday|random|gen_random_uuid|uuid_generate_v4|nextval|setval)\s*\(`)
)

// volatileChange is the part of a text, up to a semicolon, that changes rows and calls a
// volatile function.
func volatileChange(text string) string {
	for part := range strings.SplitSeq(text, ";") {
		if at := changes.FindStringIndex(part); len(at) > 0 && volatile.MatchString(part[at[0]:]) {
			return part[at[0]:]
		}
	}
	return ""
}

// TestChangesCallNothingVolatile: what changes rows gets the time, and whatever else is another
// value each time, as a parameter or from a query before it: the clock is injected, all rows of a
// change have one time, and Citus refuses it otherwise. Leases take the database's time, which is
// statement_timestamp() there. That goes for functions of the schema as well.
func TestChangesCallNothingVolatile(t *testing.T) {
	t.Parallel()
	total := 0
	for _, file := range tree(t) {
		if file.test() || !servesProduction(file.path) {
			continue
		}
		for _, s := range statementsIn(file) {
			total++
			if change := volatileChange(s.text); change != "" {
				t.Errorf("%s calls a volatile function in what changes rows:\n%s", s.where, change)
			}
		}
	}
	if total == 0 {
		t.Error("no statements found: the test does not see them")
	}
	schema, err := os.ReadFile(filepath.Join(root, "migrations", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if change := volatileChange(string(schema)); change != "" {
		t.Errorf("a function of the schema calls a volatile function in what changes rows:\n%s", change)
	}
}

// TestVolatileChanges: the rule finds what it is for, and nothing else.
func TestVolatileChanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"UPDATE log_head SET closed_until = clock_timestamp() + $2 WHERE workspace_id = $1":                           true,
		"UPDATE log_head SET closed_until = $2 WHERE workspace_id = $1":                                               false,
		"UPDATE webhook_mail SET next_attempt_at = now() WHERE workspace_id = $1":                                     false,
		"UPDATE webhook_instance i SET lease_until = clock_timestamp() WHERE i.workspace_id = '*'":                    true,
		"UPDATE webhook_instance i SET lease_until = statement_timestamp() WHERE i.workspace_id = '*'":                false,
		"DELETE FROM console_link WHERE workspace_id = $1 AND expires_at < clock_timestamp()":                         true,
		"SELECT clock_timestamp() FROM log_head WHERE workspace_id = $1 FOR UPDATE":                                   false,
		"INSERT INTO rate_count AS r (workspace_id, at) SELECT $1, clock_timestamp() ON CONFLICT DO NOTHING":          false,
		"INSERT INTO rate_count (workspace_id) VALUES ($1) ON CONFLICT (workspace_id) DO UPDATE SET n = random()":     true,
		"INSERT INTO ingest_position (n) VALUES ($1) ON CONFLICT (n) DO UPDATE SET at = clock_timestamp()":            true,
		"began := clock_timestamp(); UPDATE log_head SET position = head WHERE workspace_id = w; x := random()":       false,
		"UPDATE webhook AS w SET secret = gen_random_uuid()::text WHERE w.workspace_id = $1 AND w.webhook_id = 'one'": true,
	} {
		if got := volatileChange(text) != ""; got != want {
			t.Errorf("%s: a fault: %v, want %v", text, got, want)
		}
	}
}

var (
	// inserts finds the SELECT of what a statement inserts.
	inserts = regexp.MustCompile(`(?is)\bINSERT\s+INTO\s+[a-z_…]+\s+(?:AS\s+[a-z]+\s+)?(?:\([^()]*\)\s*)?\(?\s*SELECT\b`)

	// from finds the names that a SELECT reads.
	from = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+([a-z_]+)\b(?:[^(a-z_]|$)`)

	// created finds the tables of the schema.
	created = regexp.MustCompile(`(?m)^CREATE (?:UNLOGGED )?TABLE ([a-z_]+) `)
)

// insertedFrom is the table that a text inserts from directly, if there is one.
func insertedFrom(text string, tables map[string]bool) string {
	for _, at := range inserts.FindAllStringIndex(text, -1) {
		for _, read := range from.FindAllStringSubmatch(statementAt(text[at[0]:]), -1) {
			if tables[read[1]] {
				return read[1]
			}
		}
	}
	return ""
}

// statementAt is the statement that a text begins with. It ends where it began inside a parenthesis.
func statementAt(text string) string {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 || c == ';' {
			return text[:i]
		}
	}
	return text
}

// tablesOfTheSchema reads their names, and the whole schema.
func tablesOfTheSchema(t *testing.T) (tables map[string]bool, schema string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "migrations", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	tables = map[string]bool{}
	for _, found := range created.FindAllStringSubmatch(string(text), -1) {
		tables[found[1]] = true
	}
	if len(tables) == 0 {
		t.Fatal("no tables found: the test does not see them")
	}
	return tables, string(text)
}

// TestInsertsReadTablesBefore: what is inserted from a table comes from a materialized CTE, because
// Citus makes wrong SQL of an INSERT … SELECT from a table with parameters ("Citus" in
// docs/operations/cells.md). That goes for functions of the schema as well.
func TestInsertsReadTablesBefore(t *testing.T) {
	t.Parallel()
	tables, schema := tablesOfTheSchema(t)
	for _, file := range tree(t) {
		if file.test() || !servesProduction(file.path) || strings.HasPrefix(file.path, "internal/console/sample/") {
			continue
		}
		for _, s := range statementsIn(file) {
			if table := insertedFrom(s.text, tables); table != "" {
				t.Errorf("%s inserts from the table %s without a materialized CTE:\n%s", s.where, table, s.text)
			}
		}
	}
	if table := insertedFrom(schema, tables); table != "" {
		t.Errorf("a function of the schema inserts from the table %s without a materialized CTE", table)
	}
}

// TestInsertedFrom: the rule finds what it is for, and nothing else.
func TestInsertedFrom(t *testing.T) {
	t.Parallel()
	tables := map[string]bool{"webhook": true, "log_head": true}
	for text, want := range map[string]string{
		"INSERT INTO webhook_cursor (workspace_id, position) SELECT $1, position FROM log_head WHERE workspace_id = $1":                                  "log_head",
		"INSERT INTO webhook_cursor AS c (workspace_id) SELECT k.w FROM unnest($1::text[]) AS k (w) JOIN webhook w ON w.workspace_id = k.w":              "webhook",
		"WITH new AS MATERIALIZED (SELECT $1, position FROM log_head) INSERT INTO webhook_cursor (workspace_id, position) SELECT * FROM new":             "",
		"WITH a AS (INSERT INTO webhook_cursor (workspace_id) SELECT * FROM new RETURNING 1) SELECT count(*) FROM webhook":                               "",
		"INSERT INTO webhook_cursor (workspace_id) SELECT w FROM unnest($1::text[]) AS t (w)":                                                            "",
		"INSERT INTO webhook_cursor (workspace_id) VALUES ($1); SELECT position FROM log_head":                                                           "",
		"INSERT INTO webhook_cursor (workspace_id) (SELECT workspace_id FROM minutes UNION ALL SELECT workspace_id FROM webhook) ON CONFLICT DO NOTHING": "webhook",
	} {
		if got := insertedFrom(text, tables); got != want {
			t.Errorf("%s: inserts from %q, want %q", text, got, want)
		}
	}
}

// servesProduction reports whether a file is part of what serves customers, and not of
// what measures or tests it. A reader's copy is in the reader's own database.
func servesProduction(path string) bool {
	for _, folder := range []string{"cmd/ledgerfeed-bench/", "cmd/ledgerfeed-chaos/", "internal/testkit/", "internal/scenario/", "internal/copying/"} {
		if strings.HasPrefix(path, folder) {
			return false
		}
	}
	return true
}

// TestStatementFaults: the rule finds what it is for, and nothing else.
func TestStatementFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT state FROM webhook WHERE webhook_id = $1 FOR NO KEY UPDATE":                        true,
		"SELECT state FROM webhook WHERE workspace_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE":  false,
		"UPDATE webhook w SET state = 'on' WHERE w.webhook_id = $1":                                true,
		"UPDATE webhook w SET state = 'on' WHERE w.workspace_id = $2 AND w.webhook_id = $1":        false,
		"DELETE FROM console_link l WHERE l.hash = $1":                                             true,
		"DELETE FROM access_revision WHERE workspace_id = '*'":                                     false,
		"INSERT INTO webhook (webhook_id, workspace_id) VALUES ($1, $2)":                           true,
		"INSERT INTO webhook AS w (workspace_id, webhook_id) VALUES ($1, $2)":                      false,
		"SELECT state FROM webhook WHERE webhook_id = $1":                                          false,
		"UPDATE log_checkpoint SET position = $3 WHERE workspace_id = ANY ($1) AND consumer = $2":  false,
		"UPDATE log_checkpoint c SET position = 0 FROM k WHERE c.workspace_id = k.w AND c.n = k.n": true,
	} {
		if fault := writes.MatchString(text) && !names.MatchString(text); fault != want {
			t.Errorf("%s: a fault: %v, want %v", text, fault, want)
		}
	}
}
