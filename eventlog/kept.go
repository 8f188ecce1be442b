package eventlog

import lru "github.com/hashicorp/golang-lru/v2"

// keptHints are the positions at which the feeds of workspaces began when they were last
// looked for. A statement that is given one tries it before it searches: the beginning moves
// with the clock, so it is nearly always where it was. 0: there is none.
type keptHints = lru.Cache[string, int64]

// mostKeptHints is for how many workspaces a hint is kept.
const mostKeptHints = 20_000

func newKeptHints() *keptHints {
	hints, _ := lru.New[string, int64](mostKeptHints) // fails only for sizes below 1
	return hints
}

// keptFrom is the SQL of the first position that was published at a time or later, and one past
// the newest if there is none, from the SQL of the workspace, the time and the hint. Publish times
// rise with the positions, so a hint is right if its entry is not before the time and the one
// before it is.
func keptFrom(workspaceID, oldest, hint string) string {
	entry := `(SELECT e.created_at FROM event_log e WHERE e.workspace_id = ` + workspaceID + ` AND e.position = ` + hint + `::bigint`
	return `CASE WHEN coalesce(` + entry + `) >= ` + oldest + `, true) AND coalesce(` + entry + ` - 1) < ` + oldest + `, ` + hint + ` = 1)
	             THEN ` + hint + ` ELSE log_position_since(` + workspaceID + `, ` + oldest + `) END`
}
