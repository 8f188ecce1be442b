package distribute

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// setting is a setting of Citus that the schema needs.
type setting struct{ name, value string }

// settings of the database on every node.
func settings() []setting {
	return []setting{
		// The log and the record of who changed what refuse changes by triggers of
		// statements. Citus asks whether that is meant, because a trigger could work on
		// other shards than its own; these only refuse.
		{"citus.enable_unsafe_triggers", "on"},
		// Statements of a workspace call functions that read rows of the same workspace,
		// which are on the same node.
		{"citus.allow_nested_distributed_execution", "on"},
		// SET LOCAL lock_timeout holds on the node that has the row, too.
		{"citus.propagate_set_commands", "local"},
		// Citus 13.2 keeps a plan at every execution of a prepared statement, also those of
		// functions, whose rows are on its own node, and never gives it back: some 25 kB each.
		// It does not where plans are made for the values.
		{"plan_cache_mode", "force_custom_plan"},
	}
}

// Parameters are the settings of the connection that migrates.
func Parameters() map[string]string {
	return map[string]string{"citus.enable_unsafe_triggers": "on", "citus.multi_shard_modify_mode": "sequential"}
}

// SetLocally gives a transaction that changes many tables on a cluster the settings of
// Parameters.
func SetLocally(ctx context.Context, tx pgx.Tx) error {
	for name, value := range Parameters() {
		if _, err := tx.Exec(ctx, `SELECT set_config($1, $2, true)`, name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// SettingsError says what an administrator has to set, because this account may not.
type SettingsError struct {
	Statements []string // for each node
	reason     string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("the settings of Citus that the program needs could not be set on every node (%s): an administrator runs on each, in this database: SET citus.enable_ddl_propagation = off; %s",
		e.reason, strings.Join(e.Statements, "; "))
}

// Set makes the settings those of the database on every node, for connections that are
// opened from now on. Errors: *SettingsError. It takes no locks where they are set already.
func Set(ctx context.Context, conn *pgx.Conn) error {
	missing, err := Unset(ctx, conn)
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, sql := range missing {
		rows, err := conn.Query(ctx, `SELECT success, coalesce(result, '') FROM run_command_on_all_nodes($1, parallel => false)`, onThisNode(sql))
		if err != nil {
			return &SettingsError{missing, err.Error()}
		}
		var (
			done   bool
			answer string
		)
		_, err = pgx.ForEachRow(rows, []any{&done, &answer}, func() error {
			if !done {
				return &SettingsError{missing, strings.TrimSpace(answer)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("set the settings of Citus: %w", err)
		}
	}
	return nil
}

// onThisNode runs a statement on the node that is asked alone: Citus sends some on to the
// others, and refuses them on workers.
func onThisNode(sql string) string {
	return fmt.Sprintf(`DO $each$ BEGIN PERFORM set_config('citus.enable_ddl_propagation', 'off', true); %s; END $each$`, sql)
}

// Unset are the statements that set what is not yet set on every node.
func Unset(ctx context.Context, db querier) (statements []string, err error) {
	var database string
	if err := db.QueryRow(ctx, `SELECT quote_ident(current_database())`).Scan(&database); err != nil {
		return nil, fmt.Errorf("read the name of the database: %w", err)
	}
	for _, s := range settings() {
		// A node that is away cannot be set now, and keeps no other from working.
		var all bool
		err := db.QueryRow(ctx, `
			SELECT coalesce(bool_and(result = 't') FILTER (WHERE success), true)
			  FROM run_command_on_all_nodes($1)`, asked(s)).Scan(&all)
		if err != nil {
			return nil, fmt.Errorf("read the settings of Citus on every node: %w", err)
		}
		if !all {
			statements = append(statements, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", database, s.name, s.value))
		}
	}
	return statements, nil
}

// asked is the question whether a setting is a node's default. What the connection of
// the question has may be older than that.
func asked(s setting) string {
	return fmt.Sprintf(`SELECT EXISTS (
		SELECT FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase
		 WHERE d.datname = current_database() AND r.setrole = 0 AND '%s=%s' = ANY (r.setconfig))
		OR EXISTS (SELECT FROM pg_settings WHERE name = '%s' AND setting = '%s' AND source = 'configuration file')`, s.name, s.value, s.name, s.value)
}
