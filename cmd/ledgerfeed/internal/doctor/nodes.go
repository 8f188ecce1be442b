package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/entrance"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// checkNodes looks at the nodes of the Citus cluster that the database belongs to: as the
// coordinator reaches them, and as this machine reaches those that DATABASE_URL names.
func checkNodes(ctx context.Context, x *examination) ([]Finding, error) {
	distributed, err := pg.OnCitus(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	if !distributed {
		return ok("the database is one PostgreSQL"), nil
	}
	versions, list, err := askNodes(ctx, x)
	if err != nil {
		return nil, err
	}
	named, err := entrance.New(ctx, entrance.Config{URL: x.db.URL, Coordinator: x.pool, Logger: slog.New(slog.DiscardHandler)}) // what it would log is a finding
	if err != nil {
		return nil, fmt.Errorf("ask the nodes that DATABASE_URL names: %w", err)
	}
	used := 0
	for _, is := range named.States() {
		if is.Answers {
			used++
			continue
		}
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("the node %s that DATABASE_URL names cannot be asked from here", is.Name),
			Do: "let this machine reach it, or take it out of DATABASE_URL: until then what is of its workspaces goes by the coordinator, and takes longer",
		})
	}
	if len(list) == 0 {
		slices.Sort(versions)
		return ok("%s (Citus %s), of which DATABASE_URL names %d", plural.Of(len(versions), "node of the cluster answers", "nodes of the cluster answer"), strings.Join(slices.Compact(versions), ", "), max(1, used)), nil
	}
	return list, nil
}

// askNodes has the coordinator ask every node for its version of Citus. Those that do not
// answer are in the list.
func askNodes(ctx context.Context, x *examination) (versions []string, list []Finding, err error) {
	rows, err := x.pool.Query(ctx, `
		SELECT n.nodename || ':' || n.nodeport, r.success, coalesce(r.result, ''), (SELECT count(*) FROM pg_dist_placement p WHERE p.groupid = n.groupid)
		  FROM run_command_on_all_nodes('SELECT current_setting(''citus.version'')', give_warning_for_connection_errors => true) r
		  JOIN pg_dist_node n USING (nodeid)
		 ORDER BY 1`)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the nodes of the cluster: %w", err)
	}
	var (
		name, said string
		answers    bool
		shards     int
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &answers, &said, &shards}, func() error {
		said = strings.TrimSpace(said)
		if answers {
			versions = append(versions, said)
		} else {
			list = append(list, Finding{
				Level: Error, Text: fmt.Sprintf("the node %s of the cluster, which has %d shards, does not answer the coordinator: %s", name, shards, said),
				Do: "bring it back: until then requests about its workspaces get 503, what is appended to them is refused, and their webhooks wait; nothing is lost (docs/operations/citus.md)",
			})
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ask the nodes of the cluster: %w", err)
	}
	return versions, list, nil
}
