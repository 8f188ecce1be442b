package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Append appends entries to any number of workspaces: all of them or, on an error, none. Entries of
// one workspace are appended in the order given. Entries that the log already holds are skipped and
// count as done. A workspace that does not exist is created: see Unknown.
//
// The error is
//   - a *RefusedError if the log refuses an entry,
//   - a *LockedError if another transaction holds a workspace's lock for longer than
//     Config.LockTimeout,
//   - a *MovedError if a workspace has moved to another database, or its move takes longer than
//     Config.LockTimeout,
//   - a *ClockError if this process's clock and the database's are more than 5 minutes apart.
//
// After an error for which Certain is false, the entries may or may not have been appended: append
// them again with the same ids.
func (l *Log) Append(ctx context.Context, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts, false); err != nil {
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
// A call waits up to Config.LockTimeout for a workspace's lock. Once the transaction holds the lock
// of another workspace, it waits at most 200 ms in total, because other appends wait for that lock.
//
// After a *RefusedError or a *LockedError you may continue the transaction; it contains nothing
// from this call. After any other error you must roll it back.
func (l *Log) AppendTx(ctx context.Context, tx pgx.Tx, drafts ...domain.Draft) (receipts []Receipt, err error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if drafts, err = checked(drafts, false); err != nil {
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
	// The savepoint undoes a refused call in all of its workspaces, because the caller may go on
	// and commit.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return l.appendInTx(ctx, tx, batches, appendMode{whole: true, wait: l.lockTimeout}, fillIn(receipts))
	})
	if unavailable, is := errors.AsType[*unavailableError](err); is {
		return nil, unavailable.refusal(errLockTimeout)
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

// fillIn returns a done function for appendInTx that writes the receipts of a batch.
func fillIn(receipts []Receipt) func(*draftBatch, *appendResult) error {
	return func(b *draftBatch, result *appendResult) error { return result.fill(b, receipts) }
}

// appendInTx appends to several workspaces in one round trip and calls done with each result. The
// error is a *unavailableError if the lock of one of them was not free in time.
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

// appendResult is what log_append returns. If a call that must not wait would have to, it appends
// nothing: outcomes is nil if the workspace is locked, and empty if it does not exist yet.
type appendResult struct {
	outcomes  []string
	positions []*int64
	times     []*time.Time
}

// fill writes the receipts of a batch. If entries were refused, it returns the refusal that comes
// first in the caller's order.
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

// earlier returns the refusal with the lower index; nil if both are nil.
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

// appendSQL is the only statement that adds entries to the log, apart from its forms for several
// workspaces (groupcommit.go) and for producers' own transactions; see
// migrations/00002_detached.sql. The third argument of log_append makes the append conditional on
// the newest position; no append here uses it.
const appendSQL = `SELECT a.outcomes, a.positions, a.times FROM log_append($1, $2, NULL, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS a`

// appendTracedSQL is appendSQL for a batch with entries from recorded traces.
const appendTracedSQL = appendSQL + ` CROSS JOIN LATERAL log_trace($1, $4, $13, a.outcomes) AS t`

// maxAppend bounds the entries of one append: more would hold the workspaces'
// locks for too long. Callers with more send several batches.
const maxAppend = 10_000

// checked validates drafts and returns a copy in which each has an id, and a salt if it has a
// detached value. restore says that stored forms are taken, too.
func checked(drafts []domain.Draft, restore bool) ([]domain.Draft, error) {
	if len(drafts) > maxAppend {
		return nil, fmt.Errorf("at most %d entries in one append, not %d", maxAppend, len(drafts))
	}
	for i := range drafts {
		if err := validate(&drafts[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		if drafts[i].IsStored() && !restore {
			return nil, fmt.Errorf("entry %d: %w", i, ErrStoredForm)
		}
	}
	drafts = slices.Clone(drafts)
	for i := range drafts {
		d := &drafts[i]
		if d.ID == "" {
			id, err := NewID()
			if err != nil {
				return nil, err
			}
			d.ID = id
		}
		if d.Value() != "" && d.Salt.IsZero() {
			_, _ = rand.Read(d.Salt[:]) // it never fails
		}
	}
	for i := range drafts {
		d := &drafts[i]
		if n := len(aroundPublic) + len(d.ID) + len(d.Type) + len(d.PublicData()); n > maxPublic {
			return nil, fmt.Errorf("entry %d: its public form has %d bytes; want at most %d", i, n, maxPublic)
		}
	}
	return drafts, nil
}

// maxPublic is the maximum size of a public form in bytes: a bundle of the event tree stores each
// length in two bytes.
const maxPublic = math.MaxUint16

// aroundPublic is a public form without its id, type and data. Only its length is used.
const aroundPublic = `{"id":"","type":"","created_at":"2006-01-02T15:04:05.000Z","data":}`

// isType reports whether a type has the form that the database requires: words of a to z, separated
// by a single _ or ., and at most maxType bytes.
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

// NewID makes the id of an entry that brings none: evt_ and a UUIDv7, so that ids made one after
// another are neighbors in the index.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an event id: %w", err)
	}
	return "evt_" + id.String(), nil
}

// validate catches drafts that were not made by the domain's own functions.
func validate(d *domain.Draft) error {
	if !d.Checked() || !domain.IsID(d.WorkspaceID) {
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

// draftBatch holds entries of one workspace as arguments of log_append.
type draftBatch struct {
	workspaceID       string
	ids, types, opens []string
	created           []*time.Time
	publics, values   []*string
	salts             [][]byte // nil: the entry has no detached value
	traces            []string // the span of each append; empty: not recorded, see Log.recorded

	// indexes lists, for each entry, the indexes of its drafts in the call: an entry given twice in
	// one call is appended once. Only group sets it.
	indexes [][]int
}

func (b *draftBatch) add(d *domain.Draft, traced string) {
	b.traces = append(b.traces, traced)
	b.ids = append(b.ids, d.ID)
	b.types = append(b.types, d.Type)
	b.opens = append(b.opens, d.Open())
	var at *time.Time
	if !d.CreatedAt.IsZero() {
		t := d.CreatedAt
		at = &t
	}
	b.created = append(b.created, at)
	b.publics = append(b.publics, orNull(d.PublicData()))
	b.values = append(b.values, orNull(d.Value()))
	var salt []byte
	if d.Value() != "" {
		salt = slices.Clone(d.Salt[:])
	}
	b.salts = append(b.salts, salt)
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// holds reports whether entry i has the type and the data of a draft.
func (b *draftBatch) holds(i int, d *domain.Draft) bool {
	value := ""
	if b.values[i] != nil {
		value = *b.values[i]
	}
	return b.types[i] == d.Type && b.opens[i] == d.Open() && value == d.Value()
}

// join adds the entries of another batch.
func (b *draftBatch) join(o *draftBatch) {
	b.ids = append(b.ids, o.ids...)
	b.types = append(b.types, o.types...)
	b.opens = append(b.opens, o.opens...)
	b.created = append(b.created, o.created...)
	b.publics = append(b.publics, o.publics...)
	b.values = append(b.values, o.values...)
	b.salts = append(b.salts, o.salts...)
	b.traces = append(b.traces, o.traces...)
}

// appendMode says how a batch is appended.
type appendMode struct {
	whole   bool          // if an entry is refused, append nothing of the batch
	wait    time.Duration // for the workspace's lock; 0: do not wait
	restore bool          // publish times may be ahead of now
}

// statement returns the SQL that appends the batch, and its arguments.
func (b *draftBatch) statement(now time.Time, mode appendMode) (sql string, args []any) {
	args = []any{
		b.workspaceID, now, mode.whole, b.ids, b.types, b.created, b.opens, b.publics, b.values, b.salts,
		mode.wait.Milliseconds(), mode.restore,
	}
	if b.traced() {
		return appendTracedSQL, append(args, b.traces)
	}
	return appendSQL, args
}

// traced reports whether any entry of the batch belongs to a recorded trace.
func (b *draftBatch) traced() bool {
	return slices.ContainsFunc(b.traces, func(t string) bool { return t != "" })
}

// group sorts drafts into one batch per workspace, in the order of workspace ids, so that two
// appends cannot deadlock. traced is the span of the append; empty: not recorded.
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
			if !b.holds(at, d) {
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
	// Refused entries have no position. In PostgreSQL an array begins at a higher index if its
	// first elements were never assigned, and is shorter if its last ones were not.
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

// receipt returns the receipt of entry i of the batch, or why it was refused.
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

// A workspace whose head another transaction has locked must not hold up other workspaces, whether
// they share its batcher or need a connection from the same pool. So no transaction that other
// appends depend on waits for a lock. An append that finds its workspace locked waits separately,
// on a limited share of the connections, and fails when its own lock timeout is over.

const (
	// defaultLockTimeout is the default of Config.LockTimeout; log_publish has the
	// same.
	defaultLockTimeout = 10 * time.Second

	// lockWait is how long one statement waits for a workspace's lock before others get its slot.
	lockWait = 200 * time.Millisecond
	// severalLockWait is lockWait for each workspace of an append to several. It is shorter because
	// the append blocks the workspaces that it has already locked.
	severalLockWait = 50 * time.Millisecond

	// lockPause is how long an append that got no slot pauses before its next attempt.
	lockPause = 50 * time.Millisecond
)

// errLockTimeout is why an append stops waiting when its lock timeout is over.
var errLockTimeout = errors.New("lock timeout")

// unavailableError says that an attempt could not append now: the workspace is locked, does not exist
// yet, or is closed by a move.
type unavailableError struct {
	workspaceID string
	absent      bool // it does not exist yet, and creating it may have to wait
	moving      bool // a move has closed its log for some seconds
}

// Error names the workspace.
func (e *unavailableError) Error() string { return "workspace " + e.workspaceID + " is held" }

// refusal returns the error of an append that stops waiting; why is the reason.
func (e *unavailableError) refusal(why error) error {
	if e.moving {
		return &MovedError{WorkspaceID: e.workspaceID}
	}
	return &LockedError{WorkspaceID: e.workspaceID, Err: why}
}

// lockSlots bounds how many connections wait for locks of workspaces at once.
type lockSlots chan struct{}

// take returns how long a statement may wait for a workspace's lock: 0 if all slots are taken.
// release gives the slot back.
func (s lockSlots) take() (wait time.Duration, release func()) {
	select {
	case s <- struct{}{}:
		return lockWait, func() { <-s }
	default:
		return 0, func() {}
	}
}

// whenFree repeats attempt until it returns something other than a *unavailableError, the lock timeout
// is over, or ctx ends. An attempt must release its locks before it returns.
func (l *Log) whenFree(ctx context.Context, attempt func(wait time.Duration) error) error {
	deadline := time.Now().Add(l.lockTimeout)
	for absent := false; ; {
		wait, release := l.lockSlots.take()
		hasSlot := wait > 0
		if absent {
			wait = lockWait // creating it rarely waits: nearly always nobody else is creating it
		}
		err := attempt(wait)
		release()
		unavailable, is := errors.AsType[*unavailableError](err)
		switch {
		case !is:
			return err
		case ctx.Err() != nil:
			return unavailable.refusal(context.Cause(ctx))
		case time.Now().After(deadline):
			return unavailable.refusal(errLockTimeout)
		case unavailable.moving, !hasSlot && !unavailable.absent:
			flow.Sleep(ctx, lockPause)
		}
		absent = unavailable.absent
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

// runAppend appends a batch. The error is a *unavailableError if the workspace is not free.
func (l *Log) runAppend(ctx context.Context, db querier, b *draftBatch, mode appendMode) (result appendResult, err error) {
	err = pg.Again(ctx, func() error {
		sql, args := b.statement(l.clock(), mode)
		result, err = scanAppendResult(db.QueryRow(ctx, sql, args...))
		return err
	})
	return result, attempted(b.workspaceID, result, err)
}

// attempted returns the error of an attempt to append to a workspace; nil: log_append has decided
// on every entry.
func attempted(workspaceID string, result appendResult, err error) error {
	switch {
	case pg.Locked(err), err == nil && result.outcomes == nil:
		return &unavailableError{workspaceID: workspaceID}
	case err == nil && len(result.outcomes) == 0:
		return &unavailableError{workspaceID: workspaceID, absent: true}
	case err != nil:
		err = AppendError(workspaceID, err)
		if m, ok := errors.AsType[*MovedError](err); ok && !m.Away {
			return &unavailableError{workspaceID: workspaceID, moving: true}
		}
		return fmt.Errorf("append to %s: %w", workspaceID, err)
	}
	return nil
}

// appendSeveral appends to several workspaces in one transaction. If one of them is locked, the
// transaction ends, which releases the others. The next attempt first waits for the locked one
// alone and then locks all of them again.
func (l *Log) appendSeveral(ctx context.Context, batches []draftBatch, mode appendMode, done func(*draftBatch, *appendResult) error) error {
	var unavailable *unavailableError
	return l.whenFree(ctx, func(wait time.Duration) error {
		if unavailable != nil && !unavailable.absent {
			if err := l.awaitHead(ctx, unavailable.workspaceID, wait); err != nil {
				return err
			}
		}
		err := pg.Again(ctx, func() error {
			return pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
				mode.wait = min(wait, severalLockWait)
				return l.appendInTx(ctx, tx, batches, mode, done)
			})
		})
		unavailable, _ = errors.AsType[*unavailableError](err)
		return err
	})
}

// awaitHead waits until no other transaction holds the workspace's lock. The error is a
// *unavailableError if one still does.
func (l *Log) awaitHead(ctx context.Context, workspaceID string, wait time.Duration) error {
	err := pg.InLimitedTx(ctx, l.pool, max(wait, time.Millisecond), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM log_head WHERE workspace_id = $1 FOR UPDATE`, workspaceID); err != nil {
			return fmt.Errorf("lock its head: %w", err)
		}
		return nil
	})
	switch {
	case pg.Locked(err):
		return &unavailableError{workspaceID: workspaceID}
	case pg.RolledBack(err): // at a stricter isolation level: the holder changed the head and committed
		return nil
	case err != nil:
		return fmt.Errorf("wait for workspace %s: %w", workspaceID, err)
	}
	return nil
}

// publishedEntry is an entry in the JSON text that log_publish takes.
type publishedEntry struct {
	Index     int     `json:"index"` // of the draft in the call
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	CreatedAt *string `json:"created_at,omitempty"`
	Open      string  `json:"open"`
	Public    *string `json:"public,omitempty"`
	Value     *string `json:"value,omitempty"`
	Salt      string  `json:"salt,omitempty"` // hex
}

// PublishQuery returns a statement, and its arguments, that appends drafts to one workspace: all of
// them or none. If the log refuses one, the statement fails and aborts its transaction; see
// AppendError. Any PostgreSQL driver can send it, because the entries are one JSON text. The commit
// notifies subscribers.
func PublishQuery(workspaceID string, now time.Time, drafts []domain.Draft) (sql string, args []any, err error) {
	if drafts, err = checked(drafts, false); err != nil {
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
		entries[i] = publishedEntry{
			Index: b.indexes[i][0], ID: b.ids[i], Type: b.types[i], Open: b.opens[i], Public: b.publics[i],
			Value: b.values[i], Salt: hex.EncodeToString(b.salts[i]),
		}
		if at := b.created[i]; at != nil {
			text := domain.FormatTime(*at)
			entries[i].CreatedAt = &text
		}
	}
	return entries
}
