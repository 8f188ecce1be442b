package eventlog

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// appendSQL is the only statement by which entries get into the log, apart from
// its forms for several workspaces (groupcommit.go) and for producers' own
// transactions (publish.go); see migrations/00001_baseline.sql. Its third
// argument makes the append conditional on the newest position; nothing here uses
// it.
const appendSQL = `SELECT a.outcomes, a.positions, a.times FROM log_append($1, $2, NULL, $3, $4, $5, $6, $7, $8, $9, $10) AS a`

// appendTracedSQL is appendSQL for entries of traces that are recorded.
const appendTracedSQL = appendSQL + ` CROSS JOIN LATERAL log_trace($1, $4, $11, a.outcomes) AS t`

// maxAppend bounds the entries of one append: more would hold the workspaces'
// locks for too long. Callers with more send several batches.
const maxAppend = 10_000

// checked validates drafts and returns a copy in which each has an id.
func checked(drafts []domain.Draft) ([]domain.Draft, error) {
	if len(drafts) > maxAppend {
		return nil, fmt.Errorf("at most %d entries in one append, not %d", maxAppend, len(drafts))
	}
	for i := range drafts {
		if err := validate(&drafts[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	drafts = slices.Clone(drafts)
	for i := range drafts {
		if drafts[i].ID != "" {
			continue
		}
		id, err := NewID()
		if err != nil {
			return nil, err
		}
		drafts[i].ID = id
	}
	for i := range drafts {
		d := &drafts[i]
		if n := len(aroundPublic) + len(d.ID) + len(d.Type) + len(d.PublicData()); n > maxPublic {
			return nil, fmt.Errorf("entry %d: its public form has %d bytes; want at most %d", i, n, maxPublic)
		}
	}
	return drafts, nil
}

// maxPublic is the most bytes of a public form: a bundle of the tree of events gives the length
// of each in two bytes.
const maxPublic = math.MaxUint16

// aroundPublic is what a public form has beside its id, its type and its data.
const aroundPublic = `{"id":"","type":"","created_at":"2006-01-02T15:04:05.000Z","data":}`

// isType reports whether a type has the form that the database wants: words of a to z, with one
// _ or . between two.
func isType(text string) bool {
	letter := false
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z':
			letter = true
		case letter && (c == '_' || c == '.'):
			letter = false
		default:
			return false
		}
	}
	return letter && len(text) <= maxType
}

const maxType = 64

// NewID makes the id of an entry that brings none: evt_ and a UUIDv7, so that ids
// made one after the other lie together in the index.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an event id: %w", err)
	}
	return "evt_" + id.String(), nil
}

// validate catches drafts that were not made by the domain's own functions.
func validate(d *domain.Draft) error {
	if d.Data == "" || !domain.IsID(d.WorkspaceID) {
		return errUncheckedDraft
	}
	if !isType(d.Type) {
		return fmt.Errorf("the type %q has the wrong form: want words of a to z, such as time_entry.recorded", d.Type)
	}
	if d.ID != "" && !domain.IsID(d.ID) {
		return fmt.Errorf("id %q has the wrong form", d.ID)
	}
	if !d.CreatedAt.IsZero() && !domain.IsPublishTime(d.CreatedAt) {
		return fmt.Errorf("created_at is %s; want a time from 1970 to 9999", d.CreatedAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// draftBatch is entries of one workspace as the arguments of log_append.
type draftBatch struct {
	workspaceID       string
	ids, types, datas []string
	created           []*time.Time
	publics           []*string
	traces            []string // the span of each append, if it is recorded; see Log.recorded

	// indexes gives, for each entry, the drafts of the call that it stands for: an
	// entry given twice in one call is appended once. Batches of group have it.
	indexes [][]int
}

func (b *draftBatch) add(d *domain.Draft, traced string) {
	b.traces = append(b.traces, traced)
	b.ids = append(b.ids, d.ID)
	b.types = append(b.types, d.Type)
	b.datas = append(b.datas, d.Data)
	var at *time.Time
	if !d.CreatedAt.IsZero() {
		t := d.CreatedAt
		at = &t
	}
	b.created = append(b.created, at)
	var public *string
	if data := d.PublicData(); data != "" {
		public = &data
	}
	b.publics = append(b.publics, public)
}

// join adds the entries of another batch.
func (b *draftBatch) join(o *draftBatch) {
	b.ids = append(b.ids, o.ids...)
	b.types = append(b.types, o.types...)
	b.datas = append(b.datas, o.datas...)
	b.created = append(b.created, o.created...)
	b.publics = append(b.publics, o.publics...)
	b.traces = append(b.traces, o.traces...)
}

// appendMode says how a batch is appended.
type appendMode struct {
	whole   bool          // a refused entry means that none of the batch is appended
	wait    time.Duration // for the workspace while it is held; 0: not at all
	restore bool          // publish times may be ahead of now
}

// statement is what appends the batch, with its arguments.
func (b *draftBatch) statement(now time.Time, mode appendMode) (sql string, args []any) {
	args = []any{
		b.workspaceID, now, mode.whole, b.ids, b.types, b.created, b.datas, b.publics,
		mode.wait.Milliseconds(), mode.restore,
	}
	if b.traced() {
		return appendTracedSQL, append(args, b.traces)
	}
	return appendSQL, args
}

// traced reports whether an entry of the batch belongs to a trace that is recorded.
func (b *draftBatch) traced() bool {
	return slices.ContainsFunc(b.traces, func(t string) bool { return t != "" })
}

// group sorts drafts into one batch a workspace, the workspaces in the order of
// their ids so that two appends never wait for each other in a circle. traced is their
// span, if it is recorded.
func group(drafts []domain.Draft, traced string) ([]draftBatch, error) {
	order := map[string]int{}
	var workspaces []string
	for i := range drafts {
		if _, known := order[drafts[i].WorkspaceID]; !known {
			order[drafts[i].WorkspaceID] = 0
			workspaces = append(workspaces, drafts[i].WorkspaceID)
		}
	}
	slices.Sort(workspaces)
	batches := make([]draftBatch, len(workspaces))
	for k, w := range workspaces {
		order[w] = k
		batches[k].workspaceID = w
	}
	first := make(map[[2]string]int, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		b := &batches[order[d.WorkspaceID]]
		key := [2]string{d.WorkspaceID, d.ID}
		if at, twice := first[key]; twice {
			if b.types[at] != d.Type || b.datas[at] != d.Data {
				return nil, &RefusedError{Index: i, ID: d.ID, Reason: ErrOtherContent}
			}
			b.indexes[at] = append(b.indexes[at], i)
			continue
		}
		first[key] = len(b.ids)
		b.add(d, traced)
		b.indexes = append(b.indexes, []int{i})
	}
	return batches, nil
}

// appendResult is what log_append returns. Without outcomes nothing was appended,
// because the call was not to wait for the workspace.
type appendResult struct {
	outcomes  []string
	positions []*int64
	times     []*time.Time
}

func scanAppendResult(row pgx.Row) (appendResult, error) {
	var (
		r         appendResult
		positions pgtype.Array[*int64]
	)
	if err := row.Scan(&r.outcomes, &positions, &r.times); err != nil {
		return appendResult{}, err
	}
	// Refused entries have no position. An array whose first elements were never
	// assigned begins at a higher index, and one whose last were not is shorter.
	r.positions = make([]*int64, len(r.outcomes))
	if len(positions.Dims) == 1 {
		copy(r.positions[positions.Dims[0].LowerBound-1:], positions.Elements)
	}
	return r, nil
}

// Receipt says what became of one entry of an append.
type Receipt struct {
	ID        string
	Position  int64
	CreatedAt time.Time
	Skipped   bool // the log held the same entry already (docs/contract/log.md, "An entry")
}

// receipt is the outcome of one entry of the batch.
func (r *appendResult) receipt(b *draftBatch, i int) (Receipt, error) {
	when := ""
	if i < len(r.times) && r.times[i] != nil {
		when = domain.FormatTime(*r.times[i])
	}
	if err := outcomeError(r.outcomes[i], i, b.ids[i], when); err != nil {
		return Receipt{}, err
	}
	return Receipt{
		ID:        b.ids[i],
		Position:  *r.positions[i],
		CreatedAt: r.times[i].UTC(),
		Skipped:   r.outcomes[i] == "skipped",
	}, nil
}
