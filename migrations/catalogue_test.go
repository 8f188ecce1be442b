package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The catalogue of a database, as far as a schema is made of it. The queries
// read only what has been in PostgreSQL's catalogues in the same form since
// version 15: not the constraints that stand for NOT NULL, which newer ones
// list, and nothing of goose's own table. A partition has what its table has,
// so nothing is said of it twice.

// tableInfo is a table, view or sequence.
type tableInfo struct {
	OID      uint32
	Name     string
	Kind     string // of pg_class: r, p, v, m, S, f
	Unlogged bool
	Options  []string
	Grants   []string
	Comment  string
	View     string // its query; empty for others
	Keyed    string // of a partitioned table: by what
	Parent   string // of a partition: its table, and
	Bound    string // for which rows
}

// columnInfo is a column of a table.
type columnInfo struct {
	TableOID  uint32
	Name      string
	Type      string
	Collation string // where it is not the type's own
	NotNull   bool
	Default   string
	Generated bool
	Identity  bool
	Comment   string
}

// constraintInfo is a constraint, or an index that is none.
type constraintInfo struct {
	TableOID   uint32
	Name       string
	Kind       string // p, u, f, c, x of pg_constraint; i: an index that is unique; "": another index
	Definition string
	Columns    []string // in their order; an expression is empty
	Comment    string
}

// namedInfo is a trigger, function or type.
type namedInfo struct {
	TableOID   uint32 // of a trigger
	Name       string
	Definition string
	Comment    string
}

const ours = `c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'goose\_db\_version%'`

func tablesOf(t *testing.T, db *pgxpool.Pool) []tableInfo {
	t.Helper()
	return gather[tableInfo](t, db, `
		SELECT c.oid, c.relname::text, c.relkind::text, c.relpersistence = 'u',
		       ARRAY(SELECT o FROM unnest(c.reloptions) o ORDER BY o COLLATE "C"),
		       ARRAY(SELECT a::text FROM unnest(c.relacl) a ORDER BY a::text COLLATE "C"),
		       coalesce(obj_description(c.oid, 'pg_class'), ''),
		       coalesce(CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END, ''),
		       coalesce(pg_get_partkeydef(c.oid), ''),
		       coalesce((SELECT h.inhparent::regclass::text FROM pg_inherits h WHERE h.inhrelid = c.oid), ''),
		       coalesce(pg_get_expr(c.relpartbound, c.oid), '')
		  FROM pg_class c
		 WHERE `+ours+` AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
		 ORDER BY c.relname COLLATE "C"`)
}

func columnsOf(t *testing.T, db *pgxpool.Pool) []columnInfo {
	t.Helper()
	return gather[columnInfo](t, db, `
		SELECT c.oid, a.attname::text, format_type(a.atttypid, a.atttypmod),
		       coalesce(CASE WHEN a.attcollation <> y.typcollation THEN quote_ident(l.collname) END, ''),
		       a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attgenerated <> '', a.attidentity <> '',
		       coalesce(col_description(c.oid, a.attnum), '')
		  FROM pg_class c
		  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		  JOIN pg_type y ON y.oid = a.atttypid
		  LEFT JOIN pg_collation l ON l.oid = a.attcollation
		  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		 WHERE `+ours+` AND c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition
		 ORDER BY c.relname COLLATE "C", a.attnum`)
}

func constraintsOf(t *testing.T, db *pgxpool.Pool) []constraintInfo {
	t.Helper()
	return gather[constraintInfo](t, db, `
		SELECT c.oid, k.conname::text, k.contype::text, pg_get_constraintdef(k.oid),
		       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY n (attnum, place)
		               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = n.attnum ORDER BY n.place),
		       coalesce(obj_description(k.oid, 'pg_constraint'), '')
		  FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid
		 WHERE `+ours+` AND k.contype IN ('p', 'u', 'f', 'c', 'x') AND NOT c.relispartition
		 ORDER BY c.relname COLLATE "C", position(k.contype::text IN 'pufcx'), k.conname COLLATE "C"`)
}

// indexesOf gives the indexes that neither a constraint nor a partitioned
// table's index has made.
func indexesOf(t *testing.T, db *pgxpool.Pool) []constraintInfo {
	t.Helper()
	return gather[constraintInfo](t, db, `
		SELECT c.oid, i.relname::text, CASE WHEN x.indisunique THEN 'i' ELSE '' END, pg_get_indexdef(x.indexrelid),
		       ARRAY(SELECT coalesce(a.attname::text, '') FROM unnest(x.indkey) WITH ORDINALITY n (attnum, place)
		               LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = n.attnum
		              WHERE n.place <= x.indnkeyatts ORDER BY n.place),
		       coalesce(obj_description(x.indexrelid, 'pg_class'), '')
		  FROM pg_class c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid
		 WHERE `+ours+` AND NOT i.relispartition
		   AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = x.indexrelid AND k.contype IN ('p', 'u', 'x'))
		 ORDER BY c.relname COLLATE "C", i.relname COLLATE "C"`)
}

func triggersOf(t *testing.T, db *pgxpool.Pool) []namedInfo {
	t.Helper()
	return gather[namedInfo](t, db, `
		SELECT c.oid, g.tgname::text, pg_get_triggerdef(g.oid), coalesce(obj_description(g.oid, 'pg_trigger'), '')
		  FROM pg_class c JOIN pg_trigger g ON g.tgrelid = c.oid AND NOT g.tgisinternal
		 WHERE `+ours+` AND g.tgparentid = 0
		 ORDER BY c.relname COLLATE "C", g.tgname COLLATE "C"`)
}

func functionsOf(t *testing.T, db *pgxpool.Pool) []namedInfo {
	t.Helper()
	return gather[namedInfo](t, db, `
		SELECT 0::oid, p.oid::regprocedure::text, pg_get_functiondef(p.oid), coalesce(obj_description(p.oid, 'pg_proc'), '')
		  FROM pg_proc p
		 WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p')
		   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
		 ORDER BY p.oid::regprocedure::text COLLATE "C"`)
}

// typesOf gives enumerations and domains.
func typesOf(t *testing.T, db *pgxpool.Pool) []namedInfo {
	t.Helper()
	return gather[namedInfo](t, db, `
		SELECT 0::oid, y.typname::text,
		       CASE y.typtype
		           WHEN 'e' THEN 'ENUM (' || (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
		                                        FROM pg_enum e WHERE e.enumtypid = y.oid) || ')'
		           ELSE concat_ws(' ', 'DOMAIN ' || format_type(y.typbasetype, y.typtypmod), CASE WHEN y.typnotnull THEN 'NOT NULL' END,
		               (SELECT string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname COLLATE "C")
		                  FROM pg_constraint k WHERE k.contypid = y.oid AND k.contype = 'c'))
		       END,
		       coalesce(obj_description(y.oid, 'pg_type'), '')
		  FROM pg_type y
		 WHERE y.typnamespace = 'public'::regnamespace AND y.typtype IN ('e', 'd')
		 ORDER BY y.typname COLLATE "C"`)
}

// gather reads the rows of a query by the place of their columns.
func gather[R any](t *testing.T, db *pgxpool.Pool, query string) []R {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[R])
	if err != nil {
		t.Fatal(err)
	}
	return list
}
