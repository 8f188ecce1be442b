package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/batch"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Append appends entries of any number of workspaces, all of them or, on an
// error, none. Entries of one workspace are appended in the order given.
// Entries that the log holds already are skipped and count as done.
//
// The error is a *RefusedError when the log refuses an entry, a *HeldError when
// another transaction holds a workspace for longer than Config.HeldTimeout, a
// *MovedError when it has moved to another database, or is being moved for longer than
// that, and a *ClockError when the clock is wrong. Unless Certain reports it, the entries may
// or may not have been appended after an error: append them again, with the same
// ids.
func (l *Log) Append(ctx context.Context, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts); err != nil {
		return nil, err
	}
	ctx, end := l.trace(ctx, drafts)
	began := time.Now()
	defer func() {
		l.metrics.observe(ctx, callAppend, began, receipts, err)
		end(err)
	}()
	if len(drafts) == 1 {
		return l.appendSingle(ctx, &drafts[0])
	}
	batches, err := group(drafts, l.recorded(ctx))
	if err != nil {
		return nil, err
	}
	receipts = make([]Receipt, len(drafts))
	if len(batches) == 1 {
		err = l.appendBatch(ctx, &batches[0], receipts, appendMode{whole: true})
	} else {
		err = l.appendSeveral(ctx, batches, appendMode{whole: true}, fillIn(receipts))
	}
	if err != nil {
		return nil, err
	}
	for i := range batches {
		l.notify(TopicAppended, batches[i].workspaceID)
	}
	return receipts, nil
}

// AppendTx is Append inside the caller's transaction: the entries exist if and
// only if it commits. Their workspaces stay locked for other appends until then,
// so keep the transaction short. The commit notifies subscribers.
//
// A call waits up to Config.HeldTimeout for a workspace that another transaction
// holds, and 200 ms in all once the transaction itself holds another one, for which
// others wait.
//
// After a *RefusedError or a *HeldError the transaction can go on; nothing of this
// call is in it. After any other error it has to be rolled back.
func (l *Log) AppendTx(ctx context.Context, tx pgx.Tx, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts); err != nil {
		return nil, err
	}
	ctx, end := l.trace(ctx, drafts)
	began := time.Now()
	defer func() {
		l.metrics.observe(ctx, callAppendTx, began, receipts, err)
		end(err)
	}()
	batches, err := group(drafts, l.recorded(ctx))
	if err != nil {
		return nil, err
	}
	receipts = make([]Receipt, len(drafts))
	// A savepoint: what a refused call did to its other workspaces must not be
	// committed by a caller that goes on.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return l.appendInTx(ctx, tx, batches, appendMode{whole: true, wait: l.heldTimeout}, fillIn(receipts))
	})
	if held, notFree := errors.AsType[*notFreeError](err); notFree {
		return nil, held.over(errWaited)
	}
	if err != nil {
		return nil, err
	}
	// Only the database knows when the caller commits, so it sends the NOTIFY.
	// That costs a lock in the commit, which Append avoids.
	for i := range batches {
		if err := notifyInTx(ctx, tx, TopicAppended, batches[i].workspaceID); err != nil {
			return nil, err
		}
	}
	return receipts, nil
}

// fillIn is for appendInTx: it writes the receipts of a batch.
func fillIn(receipts []Receipt) func(*draftBatch, *appendResult) error {
	return func(b *draftBatch, result *appendResult) error { return result.fill(b, receipts) }
}

// appendInTx appends to several workspaces, in one round trip, and calls done with
// each result. The error is a *notFreeError when one of them was held for too long.
func (l *Log) appendInTx(ctx context.Context, tx pgx.Tx, batches []draftBatch, mode appendMode, done func(*draftBatch, *appendResult) error) error {
	var send pgx.Batch
	now := l.clock()
	for i := range batches {
		sql, args := batches[i].statement(now, mode)
		send.Queue(sql, args...)
	}
	results := tx.SendBatch(ctx, &send)
	var refused *RefusedError
	for i := range batches {
		result, err := scanAppendResult(results.QueryRow())
		if err = attempted(batches[i].workspaceID, result, err); err == nil {
			err = done(&batches[i], &result)
		}
		if r, ok := errors.AsType[*RefusedError](err); ok {
			refused = earlier(refused, r)
			continue
		}
		if err != nil {
			_ = results.Close() // it has the same error
			return err
		}
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return orNil(refused)
}

// appendResult is what log_append returns. Without outcomes nothing was appended,
// because the call was not to wait for the workspace.
type appendResult struct {
	outcomes  []string
	positions []*int64
	times     []*time.Time
}

// fill writes the receipts of a batch. The error is its first refusal, in the
// caller's own order.
func (r *appendResult) fill(b *draftBatch, receipts []Receipt) error {
	var refused *RefusedError
	for i := range b.ids {
		receipt, err := r.receipt(b, i)
		if refusal, ok := errors.AsType[*RefusedError](err); ok {
			refusal.Index = b.indexes[i][0]
			refused = earlier(refused, refusal)
			continue
		}
		if err != nil {
			return err
		}
		for n, index := range b.indexes[i] {
			receipts[index] = receipt
			receipts[index].Skipped = receipt.Skipped || n > 0
		}
	}
	return orNil(refused)
}

// earlier is the refusal of the earlier draft of a call; nil: none.
func earlier(a, b *RefusedError) *RefusedError {
	if a == nil || b != nil && b.Index < a.Index {
		return b
	}
	return a
}

// orNil keeps a nil pointer from becoming an error that is not nil.
func orNil(refused *RefusedError) error {
	if refused == nil {
		return nil
	}
	return refused
}

// appendSQL is the only statement by which entries get into the log, apart from
// its forms for several workspaces (groupcommit.go) and for producers' own
// transactions; see migrations/00001_baseline.sql. Its third
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

// A workspace whose head another transaction has locked must not hold up others:
// neither those that share a batcher with it, nor those that need a connection of
// the same pool. So no transaction that others depend on waits for a lock. An append
// that finds its workspace held waits apart, on a part of the connections, and
// fails when its own time is over.

const (
	// defaultHeldTimeout is the default of Config.HeldTimeout; log_publish has the
	// same.
	defaultHeldTimeout = 10 * time.Second

	// lockTurn is how long one statement waits for a workspace, before others have
	// their turn.
	lockTurn = 200 * time.Millisecond
	// severalLockTurn is the same for one workspace of an append to several: those
	// that are locked already wait, too.
	severalLockTurn = 50 * time.Millisecond

	// heldPause is the pause of an append that has no turn.
	heldPause = 50 * time.Millisecond
)

// errWaited is why an append stops waiting.
var errWaited = errors.New("it waited as long as it may")

// notFreeError is the error of an attempt that found a workspace held.
type notFreeError struct {
	workspaceID string
	absent      bool // it does not exist: creating it may mean to wait
	moving      bool // its log is closed for a move, for seconds
}

// Error names the workspace.
func (e *notFreeError) Error() string { return "workspace " + e.workspaceID + " is held" }

// over is the error of an append that has waited as long as it may.
func (e *notFreeError) over(why error) error {
	if e.moving {
		return &MovedError{WorkspaceID: e.workspaceID}
	}
	return &HeldError{WorkspaceID: e.workspaceID, Err: why}
}

// turns bounds how many connections wait for workspaces at once.
type turns chan struct{}

// take returns how long a statement may wait for a workspace: not at all when all
// turns are taken. The turn ends with giveBack.
func (t turns) take() (wait time.Duration, giveBack func()) {
	select {
	case t <- struct{}{}:
		return lockTurn, func() { <-t }
	default:
		return 0, func() {}
	}
}

// whenFree makes attempts until one does not find a workspace held, the time is
// over, or ctx has ended. An attempt holds nothing when it has ended.
func (l *Log) whenFree(ctx context.Context, attempt func(wait time.Duration) error) error {
	deadline := time.Now().Add(l.heldTimeout)
	for absent := false; ; {
		wait, giveBack := l.turns.take()
		turn := wait > 0
		if absent {
			wait = lockTurn // nearly always nobody else creates it
		}
		err := attempt(wait)
		giveBack()
		held, notFree := errors.AsType[*notFreeError](err)
		switch {
		case !notFree:
			return err
		case ctx.Err() != nil:
			return held.over(context.Cause(ctx))
		case time.Now().After(deadline):
			return held.over(errWaited)
		case held.moving, !turn && !held.absent:
			flow.Pause(ctx, heldPause)
		}
		absent = held.absent
	}
}

// appendBatch appends to one workspace in one statement, which is a transaction.
func (l *Log) appendBatch(ctx context.Context, b *draftBatch, receipts []Receipt, mode appendMode) error {
	return l.whenFree(ctx, func(wait time.Duration) error {
		mode.wait = wait
		result, err := l.runAppend(ctx, l.pool, b, mode)
		if err != nil {
			return err
		}
		return result.fill(b, receipts)
	})
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// runAppend appends a batch. The error is a *notFreeError when the workspace is held.
func (l *Log) runAppend(ctx context.Context, db querier, b *draftBatch, mode appendMode) (result appendResult, err error) {
	err = pg.Again(ctx, func() error {
		sql, args := b.statement(l.clock(), mode)
		result, err = scanAppendResult(db.QueryRow(ctx, sql, args...))
		return err
	})
	return result, attempted(b.workspaceID, result, err)
}

// attempted is the error of an attempt to append to a workspace.
func attempted(workspaceID string, result appendResult, err error) error {
	switch {
	case pg.Locked(err), err == nil && result.outcomes == nil:
		return &notFreeError{workspaceID: workspaceID}
	case err == nil && len(result.outcomes) == 0:
		return &notFreeError{workspaceID: workspaceID, absent: true}
	case err != nil:
		err = AppendError(workspaceID, err)
		if m, ok := errors.AsType[*MovedError](err); ok && !m.Away {
			return &notFreeError{workspaceID: workspaceID, moving: true}
		}
		return fmt.Errorf("append to %s: %w", workspaceID, err)
	}
	return nil
}

// appendSeveral appends to several workspaces in one transaction. When one of them
// is held, the transaction ends, so that the others are free, and the held one is
// waited for alone before all are locked again.
func (l *Log) appendSeveral(ctx context.Context, batches []draftBatch, mode appendMode, done func(*draftBatch, *appendResult) error) error {
	var held *notFreeError
	return l.whenFree(ctx, func(wait time.Duration) error {
		if held != nil && !held.absent {
			if err := l.awaitHead(ctx, held.workspaceID, wait); err != nil {
				return err
			}
		}
		err := pg.Again(ctx, func() error {
			return pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
				mode.wait = min(wait, severalLockTurn)
				return l.appendInTx(ctx, tx, batches, mode, done)
			})
		})
		held, _ = errors.AsType[*notFreeError](err)
		return err
	})
}

// awaitHead waits until a workspace is not held. The error is a *notFreeError when it
// still is.
func (l *Log) awaitHead(ctx context.Context, workspaceID string, wait time.Duration) error {
	err := pg.InLimitedTx(ctx, l.pool, max(wait, time.Millisecond), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, workspaceID); err != nil {
			return fmt.Errorf("lock its head: %w", err)
		}
		return nil
	})
	switch {
	case pg.Locked(err):
		return &notFreeError{workspaceID: workspaceID}
	case pg.RolledBack(err): // at a stricter level: who held it has changed it, and is done
		return nil
	case err != nil:
		return fmt.Errorf("wait for workspace %s: %w", workspaceID, err)
	}
	return nil
}

// heldQueues has a queue for each workspace that single appends wait for.
type heldQueues struct {
	mu sync.Mutex
	of map[string]*heldQueue
}

// heldQueue collects the single appends to one workspace while it is held.
type heldQueue struct {
	*batch.Coalescer[*pendingAppend]
	users int // appends in it
}

func (h *heldQueues) has(workspaceID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[workspaceID] != nil
}

// join returns the queue of a workspace, made by create if there is none; leave
// must be called in the end.
func (h *heldQueues) join(workspaceID string, create func() *batch.Coalescer[*pendingAppend]) (q *heldQueue, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q = h.of[workspaceID]
	if q == nil {
		q = &heldQueue{Coalescer: create()}
		h.of[workspaceID] = q
	}
	q.users++
	return q, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(h.of, workspaceID)
		}
	}
}

// appendHeld makes a single append in the queue of its workspace. A batch of the
// queue ends after one attempt, so that a caller whose time is over is answered
// soon.
func (l *Log) appendHeld(ctx context.Context, p *pendingAppend) error {
	workspaceID := p.draft.WorkspaceID
	queue, leave := l.held.join(workspaceID, func() *batch.Coalescer[*pendingAppend] {
		return batch.New(batch.Config[*pendingAppend]{Run: l.commitHeld, Timeout: groupCommitTimeout, Max: groupCommitMax})
	})
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, l.heldTimeout, errWaited)
	defer cancel()
	for {
		err := queue.Do(ctx, p)
		switch {
		case batch.Unknown(err):
			return singleError(workspaceID, err)
		case err != nil:
			return p.over(err)
		case p.state == settled:
			return nil
		case ctx.Err() != nil:
			return p.over(context.Cause(ctx))
		}
	}
}

// commitHeld makes one attempt at the appends to one workspace.
func (l *Log) commitHeld(ctx context.Context, group []*pendingAppend) {
	wait, giveBack := l.turns.take()
	turn := wait > 0
	left, moving := false, false
	for _, s := range byWorkspace(group) {
		if s.appends[0].state == leftOutAbsent {
			wait = lockTurn
		}
		l.commitAlone(ctx, s, wait)
		left = left || s.appends[0].state != settled
		moving = moving || s.appends[0].state == leftOutMoving
	}
	giveBack()
	if moving || left && !turn {
		flow.Pause(ctx, heldPause)
	}
}

// over is the error of an append that has waited as long as it may.
func (p *pendingAppend) over(why error) error {
	return (&notFreeError{workspaceID: p.draft.WorkspaceID, moving: p.state == leftOutMoving}).over(why)
}

// publishedEntry is an entry in the JSON text that log_publish takes.
type publishedEntry struct {
	Index     int     `json:"index"` // of the draft among those of the call
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	CreatedAt *string `json:"created_at,omitempty"`
	Data      string  `json:"data"`
	Public    *string `json:"public,omitempty"`
}

// PublishQuery returns a statement, and its arguments, that appends drafts to one
// workspace: all of them or none, because it fails, and with it the transaction
// that it runs in, when the log refuses one; see AppendError. Any PostgreSQL driver
// can send it, because the entries are one JSON text. The commit notifies
// subscribers.
func PublishQuery(workspaceID string, now time.Time, drafts []domain.Draft) (sql string, args []any, err error) {
	if drafts, err = checked(drafts); err != nil {
		return "", nil, err
	}
	batches, err := group(drafts, "")
	if err != nil {
		return "", nil, err
	}
	entries := []publishedEntry{}
	for i := range batches {
		if batches[i].workspaceID != workspaceID {
			return "", nil, fmt.Errorf("publish to %s: an entry is of workspace %s", workspaceID, batches[i].workspaceID)
		}
		entries = batches[i].published()
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return "", nil, fmt.Errorf("write the entries of %s as JSON: %w", workspaceID, err)
	}
	return `SELECT log_publish($1, $2, $3)`, []any{workspaceID, now, string(text)}, nil
}

func (b *draftBatch) published() []publishedEntry {
	entries := make([]publishedEntry, len(b.ids))
	for i := range entries {
		entries[i] = publishedEntry{Index: b.indexes[i][0], ID: b.ids[i], Type: b.types[i], Data: b.datas[i], Public: b.publics[i]}
		if at := b.created[i]; at != nil {
			text := domain.FormatTime(*at)
			entries[i].CreatedAt = &text
		}
	}
	return entries
}
