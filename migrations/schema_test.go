package migrations_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

var update = flag.Bool("update", false, "write schema.sql again")

const dumpFile = "schema.sql"

// TestDumpIsTrue keeps the schema dump what the migrations make. The dump is
// there to be read: what a migration changes shows in its difference.
func TestDumpIsTrue(t *testing.T) {
	t.Parallel()
	got := dump(t, testkit.Pool(t))
	if *update {
		if err := os.WriteFile(dumpFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(dumpFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the migrations make: %s\nrun go test ./migrations -update, and read what git shows", dumpFile, firstDifference(got, string(want)))
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, the file has %d", len(g), len(w))
}

// dump writes the schema of a database in one form, whichever version of
// PostgreSQL it runs on.
func dump(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- The schema as the migrations leave it, to be read: nothing runs this file.\n" +
		"-- It is written by `go test ./migrations -update`, and a test keeps it true.\n")
	for _, y := range typesOf(t, db) {
		fmt.Fprintf(&b, "\nCREATE TYPE %s AS %s;\n", y.Name, y.Definition)
		comment(&b, "TYPE "+y.Name, y.Comment)
	}
	columns, constraints := byTable(columnsOf(t, db)), byTable(constraintsOf(t, db))
	indexes, triggers := byTable(indexesOf(t, db)), byTable(triggersOf(t, db))
	for _, table := range tablesOf(t, db) {
		b.WriteByte('\n')
		writeTable(&b, table, columns[table.OID], constraints[table.OID])
		for _, i := range indexes[table.OID] {
			b.WriteString(i.Definition + ";\n")
			comment(&b, "INDEX "+i.Name, i.Comment)
		}
		for _, g := range triggers[table.OID] {
			b.WriteString(g.Definition + ";\n")
			comment(&b, "TRIGGER "+g.Name+" ON "+table.Name, g.Comment)
		}
	}
	for _, f := range functionsOf(t, db) {
		b.WriteString("\n" + strings.TrimSpace(f.Definition) + ";\n")
		comment(&b, "FUNCTION "+f.Name, f.Comment)
	}
	return b.String()
}

// ofTable is what hangs on a table.
type ofTable interface {
	columnInfo | constraintInfo | namedInfo
}

func byTable[R ofTable](list []R) map[uint32][]R {
	groups := map[uint32][]R{}
	for _, r := range list {
		var oid uint32
		switch r := any(r).(type) {
		case columnInfo:
			oid = r.TableOID
		case constraintInfo:
			oid = r.TableOID
		case namedInfo:
			oid = r.TableOID
		}
		groups[oid] = append(groups[oid], r)
	}
	return groups
}

func writeTable(b *strings.Builder, table tableInfo, columns []columnInfo, constraints []constraintInfo) {
	kind := map[string]string{"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "S": "SEQUENCE", "f": "FOREIGN TABLE"}[table.Kind]
	create := kind
	if table.Unlogged {
		create = "UNLOGGED " + kind
	}
	b.WriteString("CREATE " + create + " " + table.Name)
	switch {
	case table.View != "":
		b.WriteString(" AS\n" + strings.TrimSuffix(table.View, ";"))
	case table.Parent != "":
		b.WriteString(" PARTITION OF " + table.Parent + " " + table.Bound)
	case table.Kind != "S":
		var lines []string
		for _, c := range columns {
			lines = append(lines, "    "+c.String())
		}
		for _, k := range constraints {
			lines = append(lines, "    CONSTRAINT "+k.Name+" "+k.Definition)
		}
		b.WriteString(" (\n" + strings.Join(lines, ",\n") + "\n)")
	}
	if table.Keyed != "" {
		b.WriteString(" PARTITION BY " + table.Keyed)
	}
	if len(table.Options) > 0 {
		b.WriteString(" WITH (" + strings.Join(table.Options, ", ") + ")")
	}
	b.WriteString(";\n")
	comment(b, kind+" "+table.Name, table.Comment)
	for _, c := range columns {
		comment(b, "COLUMN "+table.Name+"."+c.Name, c.Comment)
	}
	for _, k := range constraints {
		comment(b, "CONSTRAINT "+k.Name+" ON "+table.Name, k.Comment)
	}
	for _, g := range table.Grants {
		b.WriteString("-- privileges on " + table.Name + ": " + g + "\n")
	}
}

// String writes a column's definition.
func (c columnInfo) String() string {
	parts := []string{c.Name, c.Type}
	if c.Collation != "" {
		parts = append(parts, "COLLATE "+c.Collation)
	}
	if c.NotNull {
		parts = append(parts, "NOT NULL")
	}
	switch {
	case c.Identity:
		parts = append(parts, "GENERATED AS IDENTITY")
	case c.Generated:
		parts = append(parts, "GENERATED ALWAYS AS ("+c.Default+") STORED")
	case c.Default != "":
		parts = append(parts, "DEFAULT "+c.Default)
	}
	return strings.Join(parts, " ")
}

func comment(b *strings.Builder, on, text string) {
	if text != "" {
		fmt.Fprintf(b, "COMMENT ON %s IS '%s';\n", on, strings.ReplaceAll(text, "'", "''"))
	}
}
