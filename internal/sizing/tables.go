package sizing

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Relation is a table or an index on the disk. Partitions count as the table or index
// that they are part of.
type Relation struct {
	Table string `json:"table"`
	Index string `json:"index,omitempty"` // empty: the table itself
	Bytes int64  `json:"bytes"`           // with TOAST, free space map and visibility map
}

// Relations lists the tables and indexes of the database's current schema, each table
// before its indexes. A partition that is dropped meanwhile counts as nothing.
func Relations(ctx context.Context, q querier) ([]Relation, error) {
	rows, err := q.Query(ctx, `
		WITH tables AS (
		  SELECT c.oid, coalesce(pg_partition_root(c.oid), c.oid) AS root
		    FROM pg_class c WHERE c.relnamespace = to_regnamespace(current_schema())::oid AND c.relkind IN ('r', 'p')
		), parts AS (
		  SELECT root, NULL::oid AS index, coalesce(pg_table_size(oid), 0) AS bytes FROM tables
		   UNION ALL
		  SELECT t.root, coalesce(pg_partition_root(i.indexrelid), i.indexrelid), coalesce(pg_total_relation_size(i.indexrelid), 0)
		    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
		)
		SELECT r.relname, coalesce(x.relname, ''), sum(p.bytes)::bigint
		  FROM parts p JOIN pg_class r ON r.oid = p.root LEFT JOIN pg_class x ON x.oid = p.index
		 GROUP BY r.relname, x.relname ORDER BY r.relname COLLATE "C", x.relname COLLATE "C" NULLS FIRST`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the sizes of tables: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Relation])
	if err != nil {
		return nil, fmt.Errorf("cannot read the sizes of tables: %w", err)
	}
	return list, nil
}

// TableSize is a table with its indexes.
type TableSize struct {
	Table string
	Bytes int64
}

// ByTable adds the indexes to their tables, biggest first.
func ByTable(list []Relation) []TableSize {
	var tables []TableSize
	for _, r := range list {
		if r.Index == "" {
			tables = append(tables, TableSize{Table: r.Table})
		}
		tables[len(tables)-1].Bytes += r.Bytes
	}
	slices.SortStableFunc(tables, func(a, b TableSize) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return tables
}
