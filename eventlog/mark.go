package eventlog

// Mark is a position of a workspace's log with the start of the chain there. A
// reader that keeps a Mark outside the database can tell later whether the log up
// to there is still the one that it has read: an older backup that was restored, or
// a replica that took over without the last commits, gives the same positions to
// other entries. The zero Mark is the start of every log.
type Mark struct {
	Position int64
	Chain    [8]byte // the first bytes of the entry's chain value; zero at position 0, or if they are not known
}

// NewMark makes a Mark of what ChainStart selects for a position; nil at position 0.
func NewMark(position int64, chain []byte) Mark {
	m := Mark{Position: position}
	copy(m.Chain[:], chain)
	return m
}

// ChainStart is the SQL of the bytes of a Mark, of a row e of event_log.
const ChainStart = `substr(e.chain, 1, 8)`

// HoldsMark is the SQL condition that the log of a workspace holds a Mark, from the
// SQL of the workspace's id and of the Mark's position and bytes. It is true if the bytes
// are not known.
func HoldsMark(workspaceID, position, chain string) string {
	return `(` + chain + `::bytea = '\x0000000000000000' OR EXISTS (SELECT FROM event_log e WHERE e.workspace_id = ` + workspaceID +
		` AND e.position = ` + position + `::bigint AND ` + ChainStart + ` = ` + chain + `))`
}
