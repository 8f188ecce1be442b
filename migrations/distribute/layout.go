// Package distribute puts the tables of the schema on the nodes of a Citus cluster
// ("Many instances" in docs/design.md, docs/operations/citus.md).
package distribute

import "slices"

// Place is where the rows of a table are.
type Place string

// Places of tables.
const (
	// ByWorkspace: the rows of a workspace are on one node, those of all such tables
	// together.
	ByWorkspace Place = "by workspace"

	// EveryNode: each node has a copy. For small tables that are read for every workspace
	// and rarely written: a write needs all nodes.
	EveryNode Place = "on every node"

	// Coordinator: for rows of no workspace that are written often and that no statement
	// joins with those of workspaces.
	Coordinator Place = "on the coordinator"
)

// everyNode are the tables of which each node has a copy, those first that others refer
// to. With keys and workspaces there, a node that is away keeps nobody from reading on
// the others.
func everyNode() []string {
	return []string{
		"goose_db_version", "workspace", "api_key", "api_key_secret", "access_revision", "service_key", "service_setting", "secret_key",
		"cursor_key", "workspace_move",
	}
}

// coordinator are the tables that stay on the coordinator. A lease of webhook_instance is
// of one run of the server that gave it, which only that server can compare.
func coordinator() []string { return []string{"webhook_instance", "ingest_position"} }

// byWorkspace are all other tables. The first has the head of each log; the others are
// placed with it.
func byWorkspace() []string {
	return []string{
		"log_head", "event_log", "append_trace", "log_checkpoint", "log_failure", "log_skip", "log_under_way", "replay_audit", "event_tree", "event_tile", "event_cosignature",
		"invoice", "charge", "time_entry", "payment", "client", "contractor", "client_credit", "credit_move", "closed_period",
		"removed_charge", "removed_billed_charge", "removed_time_entry", "anomaly", "anomaly_acknowledged",
		"api_key_use", "rate_count", "request_log", "request_refused",
		"request_rollup", "key_rollup", "attempt_rollup", "event_rollup", "event_rollup_cursor",
		"webhook", "webhook_cursor", "webhook_waiting", "webhook_delivery", "webhook_mail",
		"console_session", "console_link", "console_audit",
	}
}

// Table is a table of the schema and where it belongs.
type Table struct {
	Name  string `json:"table"`
	Place Place  `json:"place"`
}

// Layout is every table of the schema, in the order in which they are distributed.
// Partitions are where their tables are.
func Layout() (list []Table) {
	for _, group := range []struct {
		names []string
		place Place
	}{{coordinator(), Coordinator}, {everyNode(), EveryNode}, {byWorkspace(), ByWorkspace}} {
		for _, name := range group.names {
			list = append(list, Table{name, group.place})
		}
	}
	return list
}

// placeOf is where a table belongs; "": it is not of the schema.
func placeOf(name string) Place {
	list := Layout()
	if i := slices.IndexFunc(list, func(t Table) bool { return t.Name == name }); i >= 0 {
		return list[i].Place
	}
	return ""
}
