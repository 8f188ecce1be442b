package eventlog

import "github.com/ledgerfeed/ledgerfeed/domain"

// Segment is the next entries of one workspace for a consumer.
type Segment struct {
	WorkspaceID string
	After       int64 // the checkpoint: position of the last entry handled before
	Entries     []domain.Entry
	Public      []string // with SubscriberConfig.Public, the public forms of the entries; empty: internal
	Pay         []bool   // with SubscriberConfig.Public, whether only readers with pay:read may see their events

	failures int
	failedTo int64
	full     bool     // there may be more entries after these
	next     claiming // how the workspace is claimed after this claim; 0: as usual
}

// End is the position of the segment's last entry.
func (s *Segment) End() int64 { return s.After + int64(len(s.Entries)) }

// cut takes the entries at a position and after it away.
func (s *Segment) cut(position int64) { s.Entries = s.Entries[:position-s.After-1] }
