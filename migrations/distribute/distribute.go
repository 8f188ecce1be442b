package distribute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Cluster is what a database says of the Citus cluster that it belongs to.
type Cluster struct {
	Version string // of the extension; empty: the database has none, and nothing is distributed
	Worker  bool   // the connection is with a worker, not the coordinator
	Nodes   int    // that hold rows
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Look asks a database for its cluster. It changes nothing.
func Look(ctx context.Context, db querier) (c Cluster, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce((SELECT extversion FROM pg_extension WHERE extname = 'citus'), '')`).Scan(&c.Version)
	if err == nil && c.Version != "" {
		err = db.QueryRow(ctx, `
			SELECT coalesce((SELECT groupid <> 0 FROM pg_dist_local_group), false),
			       (SELECT count(*) FROM pg_dist_node WHERE isactive AND shouldhaveshards)`).Scan(&c.Worker, &c.Nodes)
	}
	if err != nil {
		return c, fmt.Errorf("ask for the Citus cluster: %w", err)
	}
	return c, nil
}

// WorkerError says that the schema can only be changed through the coordinator.
type WorkerError struct{}

func (*WorkerError) Error() string {
	return "this database is a worker of a Citus cluster, and the schema is changed through the coordinator: " +
		"set DATABASE_URL to the coordinator's address (docs/operations/citus.md)"
}

// Pending are the tables of the schema that exist and are not where they belong.
func Pending(ctx context.Context, db querier) ([]Table, error) {
	var names []string
	for _, t := range Layout() {
		names = append(names, t.Name)
	}
	rows, err := db.Query(ctx, `
		SELECT l.name, CASE WHEN p.partmethod = 'h' AND p.colocationid = coalesce(h.colocationid, p.colocationid) THEN $2
		                    WHEN p.partmethod = 'h' THEN 'apart'
		                    WHEN p.partmethod = 'n' AND p.repmodel = 't' THEN $3 ELSE $4 END
		  FROM unnest($1::text[]) WITH ORDINALITY AS l (name, n)
		  LEFT JOIN pg_dist_partition p ON p.logicalrelid = to_regclass(l.name)
		  LEFT JOIN pg_dist_partition h ON h.logicalrelid = to_regclass('log_head')
		 WHERE to_regclass(l.name) IS NOT NULL
		 ORDER BY l.n`, names, ByWorkspace, EveryNode, Coordinator)
	if err != nil {
		return nil, fmt.Errorf("look for tables that are not distributed: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Table])
	if err != nil {
		return nil, fmt.Errorf("look for tables that are not distributed: %w", err)
	}
	var pending []Table
	for _, t := range found {
		if want := placeOf(t.Name); t.Place != want {
			pending = append(pending, Table{t.Name, want})
		}
	}
	return pending, nil
}

// Up distributes the tables that are not yet where they belong, in the transaction, and
// says which these were. Rows that they hold are copied; nobody can write them until the
// transaction has ended. Citus is asked to work on one shard after the other, because a
// transaction that has worked on several at once may not change their tables afterwards.
func Up(ctx context.Context, tx pgx.Tx) (done []Table, err error) {
	pending, err := Pending(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := SetLocally(ctx, tx); err != nil {
		return nil, err
	}
	if len(pending) > 0 {
		if err := distribute(ctx, tx, pending); err != nil {
			return nil, err
		}
	}
	return pending, makeFunctionsKnown(ctx, tx)
}

func distribute(ctx context.Context, tx pgx.Tx, pending []Table) error {
	references, err := dropReferences(ctx, tx, pending)
	if err != nil {
		return err
	}
	for _, t := range pending {
		if err := place(ctx, tx, t); err != nil {
			return err
		}
	}
	triggers, err := dropTriggers(ctx, tx, pending)
	if err != nil {
		return err
	}
	for _, sql := range slices.Concat(emptyLocal(pending), triggers, references) {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("distribute: %s: %w", sql, err)
		}
	}
	return nil
}

// place puts one table where it belongs.
func place(ctx context.Context, tx pgx.Tx, t Table) error {
	sql := `SELECT create_distributed_table($1::text::regclass, 'workspace_id', colocate_with => 'log_head')`
	switch {
	case t.Place == Coordinator:
		return fmt.Errorf("the table %s is distributed, and belongs on the coordinator alone: SELECT undistribute_table('%s')", t.Name, t.Name)
	case t.Place == EveryNode:
		sql = `SELECT create_reference_table($1::text::regclass)`
	case t.Name == byWorkspace()[0]:
		sql = `SELECT create_distributed_table($1::text::regclass, 'workspace_id', colocate_with => 'none')`
	}
	if t.Place == ByWorkspace {
		// What is unlogged cannot be moved to another node while it is written.
		if _, err := tx.Exec(ctx, `ALTER TABLE `+t.Name+` SET LOGGED`); err != nil {
			return fmt.Errorf("have changes of the table %s logged: %w", t.Name, err)
		}
	}
	if _, err := tx.Exec(ctx, sql, t.Name); err != nil {
		return fmt.Errorf("distribute the table %s %s: %w", t.Name, t.Place, err)
	}
	return nil
}

// emptyLocal are the statements that remove the rows of tables that were copied to the
// nodes: Citus keeps them, unseen, in the table itself.
func emptyLocal(tables []Table) (sql []string) {
	for _, t := range tables {
		sql = append(sql, `SELECT truncate_local_data_after_distributing_table('`+t.Name+`')`)
	}
	return sql
}

// dropReferences drops the foreign keys from and to tables, because a table cannot be
// distributed while it is tied to one that is not, and returns the statements that make
// them again.
func dropReferences(ctx context.Context, tx pgx.Tx, tables []Table) (again []string, err error) {
	return drop(ctx, tx, tables, "foreign keys", `
		SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
		       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		  FROM pg_constraint
		 WHERE contype = 'f' AND conparentid = 0
		   AND (conrelid = ANY ($1::text[]::regclass[]) OR confrelid = ANY ($1::text[]::regclass[]))
		 ORDER BY conrelid::regclass::text, conname`)
}

// dropTriggers drops the triggers of tables that were distributed, because those that refuse
// changes would refuse emptyLocal, too. The shards keep theirs: Citus gives a trigger that is
// also for TRUNCATE to shards when it distributes the table, and never touches it afterwards.
func dropTriggers(ctx context.Context, tx pgx.Tx, tables []Table) (again []string, err error) {
	return drop(ctx, tx, tables, "triggers", `
		SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass), pg_get_triggerdef(oid)
		  FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0 AND tgtype & 32 <> 0 AND tgrelid = ANY ($1::text[]::regclass[])
		 ORDER BY tgrelid::regclass::text, tgname`)
}

// drop runs the first column of a query about tables, as statements, and returns the
// second.
func drop(ctx context.Context, tx pgx.Tx, tables []Table, what, query string) (again []string, err error) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	type statements struct{ Drop, Make string }
	rows, err := tx.Query(ctx, query, names)
	if err != nil {
		return nil, fmt.Errorf("look for the %s of tables: %w", what, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statements])
	if err != nil {
		return nil, fmt.Errorf("look for the %s of tables: %w", what, err)
	}
	for _, s := range list {
		if _, err := tx.Exec(ctx, s.Drop); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Drop, err)
		}
		again = append(again, s.Make)
	}
	return again, nil
}

// makeFunctionsKnown gives the nodes the functions that they do not have, because these were
// made before the extension: statements that run on a node call them there.
func makeFunctionsKnown(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT create_distributed_function(p.oid::regprocedure)
		  FROM pg_proc p
		 WHERE p.pronamespace = current_schema()::regnamespace AND p.prokind = 'f'
		   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
		   AND NOT EXISTS (SELECT FROM pg_catalog.pg_dist_object o WHERE o.classid = 'pg_proc'::regclass AND o.objid = p.oid)`)
	if err != nil {
		return fmt.Errorf("give the nodes the functions of the schema: %w", err)
	}
	return nil
}

// errNoCoordinator: Citus needs to know where the coordinator is, to keep copies there.
var errNoCoordinator = errors.New("the coordinator is not a node of its own cluster, so that tables cannot have a copy on it: " +
	"an administrator runs SELECT citus_set_coordinator_host('the address by which the workers reach it') in this database (docs/operations/citus.md)")

// CheckCoordinator makes sure that the tables that every node has a copy of can be on the
// coordinator, too.
func CheckCoordinator(ctx context.Context, db querier) error {
	var there bool
	if err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_dist_node WHERE groupid = 0) OR NOT EXISTS (SELECT FROM pg_dist_node)`).Scan(&there); err != nil {
		return fmt.Errorf("look for the coordinator: %w", err)
	}
	if !there {
		return errNoCoordinator
	}
	return nil
}
