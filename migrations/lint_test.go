package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// shardKey is the column that every key begins with, so that the schema shards
// by workspace as it is ("Many instances" in docs/design.md).
const shardKey = "workspace_id"

// plain are columns whose name says all there is to say, in every table: the
// service's own words, and the read rows' place and parts, which the comments
// of the first read table explain.
var plain = []string{
	shardKey, "id", "event_id", "event_type", "webhook_id", "client_id", "contractor_id", "invoice_id", "period", "type", "status", "name", "reason",
	"position", "base", "pay", "margin", "created_at", "url", "subject", "body",
}

// TestSchemaKeepsItsRules looks at the migrated schema with every rule.
func TestSchemaKeepsItsRules(t *testing.T) {
	t.Parallel()
	for _, fault := range faults(t, testkit.Pool(t)) {
		t.Error(fault)
	}
}

// TestRulesSeeFaults breaks every rule in a schema of its own.
func TestRulesSeeFaults(t *testing.T) {
	t.Parallel()
	db := testkit.Pool(t)
	before := faults(t, db)
	if _, err := db.Exec(t.Context(), `
		CREATE TABLE wrong_key (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace_id text UNIQUE);
		CREATE TABLE wrong_reference (workspace_id text COLLATE "C" PRIMARY KEY, other bigint REFERENCES wrong_key, UNIQUE (workspace_id, other));
		COMMENT ON TABLE wrong_reference IS 'Has one.';
		CREATE TABLE wrong_target (workspace_id text COLLATE "C" PRIMARY KEY, id bigint UNIQUE);
		ALTER TABLE wrong_target ADD FOREIGN KEY (workspace_id) REFERENCES wrong_key (workspace_id);
		CREATE UNIQUE INDEX wrong_index ON wrong_target (lower(workspace_id));
		CREATE TABLE wrong_nothing (colour text);
		CREATE FUNCTION wrong_function() RETURNS integer LANGUAGE sql AS 'SELECT 1';
		CREATE FUNCTION wrong_row(w wrong_target) RETURNS bigint LANGUAGE sql RETURN (SELECT max(x.id) FROM wrong_target x);
		COMMENT ON FUNCTION wrong_row(wrong_target) IS 'Has one.';
		ALTER TABLE wrong_target ADD of_table oid DEFAULT 'wrong_target'::regclass;
		COMMENT ON COLUMN wrong_target.of_table IS 'Has one.'`); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, fault := range faults(t, db) {
		if !slices.Contains(before, fault) {
			found = append(found, fault)
		}
	}
	for _, want := range []string{
		"wrong_key: wrong_key_pkey begins with [id], not with workspace_id",
		"wrong_key_id_seq is a sequence", "wrong_key.id is an identity", "wrong_key has no comment",
		`wrong_key.workspace_id is in a key or an index and not COLLATE "C"`,
		"wrong_reference: wrong_reference_other_fkey begins with [other], not with workspace_id",
		"wrong_reference: wrong_reference_other_fkey refers to id first, not to workspace_id",
		"wrong_reference.other has no comment",
		"wrong_target: wrong_target_id_key begins with [id], not with workspace_id",
		"wrong_target: wrong_index begins with [], not with workspace_id",
		"wrong_target has no comment", "wrong_nothing has no primary key", "wrong_nothing.colour has no comment", "wrong_nothing has no comment",
		"the function wrong_function() has no comment",
		"the function wrong_row(wrong_target) takes a row of a table", "the function wrong_row(wrong_target) reads a table in a RETURN",
		"wrong_target.of_table names a table in its default",
	} {
		if !slices.Contains(found, want) {
			t.Errorf("not seen: %s", want)
		}
		found = slices.DeleteFunc(found, func(fault string) bool { return fault == want })
	}
	if len(found) > 0 {
		t.Errorf("seen besides:\n%s", strings.Join(found, "\n"))
	}
}

// faults applies every rule to a database.
func faults(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	names := map[uint32]string{}
	tables := tablesOf(t, db)
	for _, table := range tables {
		names[table.OID] = table.Name
	}
	keys := slices.Concat(constraintsOf(t, db), indexesOf(t, db))
	columns := columnsOf(t, db)
	return slices.Concat(
		keyFaults(names, tables, keys), referenceFaults(t, db), counterFaults(names, tables, columns),
		collationFaults(names, keys, columns), commentFaults(names, tables, columns, functionsOf(t, db)), citusFaults(t, db),
	)
}

// keyFaults: each table has a primary key, and each primary key, unique
// constraint, unique index and foreign key begins with the workspace.
func keyFaults(names map[uint32]string, tables []tableInfo, keys []constraintInfo) (found []string) {
	keyed := map[uint32]bool{}
	for _, k := range keys {
		switch k.Kind {
		case "p", "u", "f", "i", "x": // a check or a plain index may begin with anything
			if len(k.Columns) == 0 || k.Columns[0] != shardKey {
				found = append(found, fmt.Sprintf("%s: %s begins with %v, not with %s", names[k.TableOID], k.Name, k.Columns, shardKey))
			}
		}
		keyed[k.TableOID] = keyed[k.TableOID] || k.Kind == "p"
	}
	for _, table := range tables {
		if (table.Kind == "r" || table.Kind == "p") && table.Parent == "" && !keyed[table.OID] {
			found = append(found, table.Name+" has no primary key")
		}
	}
	return found
}

// referenceFaults: a reference stays in its workspace.
func referenceFaults(t *testing.T, db *pgxpool.Pool) (found []string) {
	t.Helper()
	type reference struct{ Table, Name, First string }
	for _, r := range gather[reference](t, db, `
		SELECT c.relname::text, k.conname::text, a.attname::text
		  FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'f'
		  JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = k.confkey[1]
		 WHERE `+ours) {
		if r.First != shardKey {
			found = append(found, fmt.Sprintf("%s: %s refers to %s first, not to %s", r.Table, r.Name, r.First, shardKey))
		}
	}
	return found
}

// citusFaults: a distributed schema of Citus ("Citus" in docs/operations/cells.md) has the rows in
// tables of other names and types, cannot plan a RETURN that reads a table, and makes a table on
// another node from its definition alone.
func citusFaults(t *testing.T, db *pgxpool.Pool) (found []string) {
	t.Helper()
	type fault struct{ Text string }
	for _, f := range gather[fault](t, db, `
		SELECT 'the function ' || p.oid::regprocedure || ' takes a row of a table' AS text
		  FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
		   AND EXISTS (SELECT FROM unnest(p.proargtypes::oid[]) AS a (oid) JOIN pg_type y ON y.oid = a.oid WHERE y.typrelid <> 0)
		 UNION ALL
		SELECT 'the function ' || p.oid::regprocedure || ' reads a table in a RETURN'
		  FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosqlbody IS NOT NULL
		   AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_class'::regclass)
		 UNION ALL
		SELECT a.attrelid::regclass || '.' || a.attname || ' names a table in its default'
		  FROM pg_attrdef f JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum JOIN pg_class c ON c.oid = a.attrelid
		 WHERE pg_get_expr(f.adbin, f.adrelid) LIKE '%::regclass%' AND a.attidentity = '' AND `+ours+`
		 ORDER BY text`) {
		found = append(found, f.Text)
	}
	return found
}

// counterFaults: a sequence would be one place that every shard waits for, and
// its gaps and its order mislead readers.
func counterFaults(names map[uint32]string, tables []tableInfo, columns []columnInfo) (found []string) {
	for _, table := range tables {
		if table.Kind == "S" {
			found = append(found, table.Name+" is a sequence")
		}
	}
	for _, c := range columns {
		if c.Identity {
			found = append(found, names[c.TableOID]+"."+c.Name+" is an identity")
		}
	}
	return found
}

// collationFaults: lists promise bytewise order, whatever the database's own
// collation, and an index in another order is broken by an upgrade of the
// system's collations.
func collationFaults(names map[uint32]string, keys []constraintInfo, columns []columnInfo) (found []string) {
	indexed := map[uint32][]string{}
	for _, k := range keys {
		if k.Kind != "c" {
			indexed[k.TableOID] = append(indexed[k.TableOID], k.Columns...)
		}
	}
	for _, c := range columns {
		if c.Type == "text" && c.Collation != `"C"` && slices.Contains(indexed[c.TableOID], c.Name) {
			found = append(found, names[c.TableOID]+"."+c.Name+` is in a key or an index and not COLLATE "C"`)
		}
	}
	return found
}

// commentFaults: the schema is a contract between rooms, and its comments are
// the text of it.
func commentFaults(names map[uint32]string, tables []tableInfo, columns []columnInfo, functions []namedInfo) (found []string) {
	for _, table := range tables {
		if table.Comment == "" && table.Parent == "" && table.Kind != "S" {
			found = append(found, table.Name+" has no comment")
		}
	}
	for _, c := range columns {
		if c.Comment == "" && !slices.Contains(plain, c.Name) {
			found = append(found, names[c.TableOID]+"."+c.Name+" has no comment")
		}
	}
	for _, f := range functions {
		if f.Comment == "" {
			found = append(found, "the function "+f.Name+" has no comment")
		}
	}
	return found
}
