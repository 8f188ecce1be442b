package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// appendSQL is the one way into the log; see migrations/00001_log.sql.
const appendSQL = `SELECT head, outcomes, positions, times FROM log_append($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// maxAppend bounds the entries of one append: more would hold the workspaces'
// locks for too long. Callers with more send several batches.
const maxAppend = 10_000

// Append appends entries of any number of workspaces, all of them or, on an
// error, none. Entries of one workspace are appended in the order given.
// Entries that the log holds already are skipped and count as done.
//
// The error is a *RefusedError when the log refuses an entry. After any other
// error the entries may or may not have been appended: append them again,
// with the same ids.
func (l *Log) Append(ctx context.Context, drafts ...domain.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	drafts, err := checked(drafts)
	if err != nil {
		return nil, err
	}
	if len(drafts) == 1 {
		return l.appendSingle(ctx, drafts[0])
	}
	batches, places, err := group(drafts)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(drafts))
	if len(batches) == 1 {
		err = l.appendOne(ctx, l.pool, batches[0], places[0], receipts, nil)
	} else {
		err = pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
			return l.appendEach(ctx, tx, batches, places, receipts)
		})
	}
	if err != nil {
		return nil, err
	}
	l.announce(batches)
	return receipts, nil
}

// AppendExpecting is Append to one workspace, on the condition that its newest
// position is the expected one (0 for a workspace without entries). Otherwise
// the error is a *ConflictError and nothing is appended.
func (l *Log) AppendExpecting(ctx context.Context, workspaceID string, expected int64, drafts ...domain.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, errors.New("an append with an expected position needs an entry")
	}
	drafts, err := checked(drafts)
	if err != nil {
		return nil, err
	}
	batches, places, err := group(drafts)
	if err != nil {
		return nil, err
	}
	if len(batches) != 1 || batches[0].workspaceID != workspaceID {
		return nil, fmt.Errorf("an append with an expected position is about one workspace, %s", workspaceID)
	}
	receipts := make([]Receipt, len(drafts))
	if err := l.appendOne(ctx, l.pool, batches[0], places[0], receipts, &expected); err != nil {
		return nil, err
	}
	l.announce(batches)
	return receipts, nil
}

// AppendTx is Append inside the caller's transaction: the entries exist if and
// only if it commits. Their workspaces stay locked for other appends until
// then, so keep the transaction short. Those who wait are woken by the commit.
//
// After a *RefusedError the transaction can go on; nothing of this call is in
// it. After any other error it has to be rolled back.
func (l *Log) AppendTx(ctx context.Context, tx pgx.Tx, drafts ...domain.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	drafts, err := checked(drafts)
	if err != nil {
		return nil, err
	}
	batches, places, err := group(drafts)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(drafts))
	// A savepoint: what a refused call did to its other workspaces must not be
	// committed by a caller who goes on.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return l.appendEach(ctx, tx, batches, places, receipts)
	})
	if err != nil {
		return nil, err
	}
	// Only the database knows when the caller commits, so it does the waking;
	// that costs a lock in the commit, which a transaction of one's own avoids.
	for i := range batches {
		if err := notifyInTx(ctx, tx, TopicAppended, batches[i].workspaceID); err != nil {
			return nil, err
		}
	}
	return receipts, nil
}

// checked gives the drafts of a call as they are appended: of the right form,
// each with an id. The caller's own stay as they are.
func checked(drafts []domain.Draft) ([]domain.Draft, error) {
	if len(drafts) > maxAppend {
		return nil, fmt.Errorf("at most %d entries in one append, not %d", maxAppend, len(drafts))
	}
	if err := validate(drafts); err != nil {
		return nil, err
	}
	drafts = slices.Clone(drafts)
	if err := assignIDs(drafts); err != nil {
		return nil, err
	}
	return drafts, nil
}

func (l *Log) announce(batches []draftBatch) {
	for i := range batches {
		l.notify(TopicAppended, batches[i].workspaceID)
	}
}

func assignIDs(drafts []domain.Draft) error {
	for i := range drafts {
		if drafts[i].ID != "" {
			continue
		}
		id, err := newID()
		if err != nil {
			return err
		}
		drafts[i].ID = id
	}
	return nil
}

// group sorts drafts into one batch a workspace, the workspaces in the order
// of their ids so that two appends never wait for each other in a circle.
// places gives, for each element of a batch, the indexes of the drafts it
// stands for: an entry given twice in one call is appended once.
func group(drafts []domain.Draft) (batches []draftBatch, places [][][]int, err error) {
	order := map[string]int{}
	var workspaces []string
	for i := range drafts {
		if _, known := order[drafts[i].WorkspaceID]; !known {
			order[drafts[i].WorkspaceID] = 0
			workspaces = append(workspaces, drafts[i].WorkspaceID)
		}
	}
	slices.Sort(workspaces)
	batches = make([]draftBatch, len(workspaces))
	places = make([][][]int, len(workspaces))
	for k, w := range workspaces {
		order[w] = k
		batches[k].workspaceID = w
	}
	first := make(map[[2]string]int, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		k := order[d.WorkspaceID]
		key := [2]string{d.WorkspaceID, d.ID}
		if at, twice := first[key]; twice {
			if b := &batches[k]; b.types[at] != d.Type || b.datas[at] != d.Data {
				return nil, nil, &RefusedError{Index: i, ID: d.ID, Reason: ErrOtherContent}
			}
			places[k][at] = append(places[k][at], i)
			continue
		}
		first[key] = len(batches[k].ids)
		batches[k].add(d)
		places[k] = append(places[k], []int{i})
	}
	return batches, places, nil
}

// appendEach appends the batches inside a transaction, one round trip for all.
func (l *Log) appendEach(ctx context.Context, tx pgx.Tx, batches []draftBatch, places [][][]int, receipts []Receipt) error {
	var send pgx.Batch
	now := l.clock()
	for i := range batches {
		send.Queue(appendSQL, batches[i].args(now, nil, true)...)
	}
	results := tx.SendBatch(ctx, &send)
	var refused *RefusedError
	for i := range batches {
		ans, err := scanAppendResult(results.QueryRow())
		if err == nil {
			err = ans.fill(&batches[i], places[i], receipts)
		}
		var r *RefusedError
		if errors.As(err, &r) {
			// Of several, the caller hears of the first in its own order.
			if refused == nil || r.Index < refused.Index {
				refused = r
			}
			continue
		}
		if err != nil {
			return errors.Join(fmt.Errorf("append to %s: %w", batches[i].workspaceID, err), results.Close())
		}
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if refused != nil {
		return refused
	}
	return nil
}

// querier is what a pool and a transaction have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// appendOne appends one workspace's batch in one statement.
func (l *Log) appendOne(ctx context.Context, q querier, b draftBatch, places [][]int, receipts []Receipt, expected *int64) error {
	ans, err := scanAppendResult(q.QueryRow(ctx, appendSQL, b.args(l.clock(), expected, true)...))
	if err != nil {
		return fmt.Errorf("append to %s: %w", b.workspaceID, err)
	}
	if ans.outcomes == nil && expected != nil {
		return &ConflictError{WorkspaceID: b.workspaceID, Expected: *expected, Actual: ans.head}
	}
	return ans.fill(&b, places, receipts)
}

func (b *draftBatch) args(now time.Time, expected *int64, whole bool) []any {
	return []any{b.workspaceID, now, expected, whole, b.ids, b.types, b.created, b.datas, b.publics}
}

// appendResult is what log_append returns.
type appendResult struct {
	head      int64
	outcomes  []string
	positions []*int64
	times     []*time.Time
}

func scanAppendResult(row pgx.Row) (appendResult, error) {
	var (
		a         appendResult
		positions pgtype.Array[*int64]
	)
	if err := row.Scan(&a.head, &a.outcomes, &positions, &a.times); err != nil {
		return appendResult{}, err
	}
	// Refused entries have no position. An array whose first elements were
	// never assigned begins at a higher index, and one whose last were not is
	// shorter.
	a.positions = make([]*int64, len(a.outcomes))
	if len(positions.Dims) == 1 {
		copy(a.positions[positions.Dims[0].LowerBound-1:], positions.Elements)
	}
	return a, nil
}

// receipt is the outcome of one element.
func (a *appendResult) receipt(b *draftBatch, i int) (Receipt, error) {
	when := ""
	if i < len(a.times) && a.times[i] != nil {
		when = domain.FormatTime(*a.times[i])
	}
	if err := outcome(a.outcomes[i], i, b.ids[i], when); err != nil {
		return Receipt{}, err
	}
	return Receipt{
		ID:        b.ids[i],
		Position:  *a.positions[i],
		CreatedAt: a.times[i].UTC(),
		Skipped:   a.outcomes[i] == "skipped",
	}, nil
}

// fill writes the receipts of a batch; the first refusal, by the caller's own
// order, is the error.
func (a *appendResult) fill(b *draftBatch, places [][]int, receipts []Receipt) error {
	var refused *RefusedError
	for i := range b.ids {
		r, err := a.receipt(b, i)
		var ref *RefusedError
		if errors.As(err, &ref) {
			ref.Index = places[i][0]
			if refused == nil || ref.Index < refused.Index {
				refused = ref
			}
			continue
		}
		if err != nil {
			return err
		}
		for n, place := range places[i] {
			receipts[place] = r
			receipts[place].Skipped = r.Skipped || n > 0
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}
