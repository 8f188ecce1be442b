package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

const (
	// appends is how many workspaces are appended to at once.
	appends = 4
	// appendSize is the most entries of one append.
	appendSize = 1000
)

// item is a message with the entry that it is.
type item struct {
	index int // of the message in its batch
	draft domain.Draft
	place *place // where a relay found it; nil: the message is of a producer
}

// place is a position of a log, with the chain there.
type place struct {
	position int64
	chain    [32]byte
}

var (
	errNoID       = errors.New("the entry has no id, nor has the message a UUID that can be one (1 to 64 of A-Z a-z 0-9 _ -): without one it cannot be appended exactly once")
	errPlace      = errors.New("the message has a position or a chain, and not both in the form that a relay gives them")
	errPlaceID    = errors.New("an entry of a relay has its id and created_at")
	errOtherChain = errors.New("the chain at this position is another one: this log does not hold the entries before it as the log that was relayed does")
)

// appender appends batches.
type appender struct {
	log    *eventlog.Log
	rules  Rules
	create bool            // workspaces that do not exist
	known  map[string]bool // workspaces that do; only by append
}

// readItem reads a message. The error is a reason for a dead letter.
func (a *appender) readItem(index int, msg *Message) (item, error) {
	if msg.Fault != nil {
		return item{}, msg.Fault
	}
	d, err := domain.DecodeDraft(msg.Payload)
	if err != nil {
		return item{}, err
	}
	if err := a.rules.permits(msg, d.WorkspaceID); err != nil {
		return item{}, err
	}
	it := item{index: index, draft: d}
	if it.place, err = a.rules.place(msg); err != nil {
		return item{}, err
	}
	if it.place != nil && (d.ID == "" || d.CreatedAt.IsZero()) {
		return item{}, errPlaceID
	}
	if it.draft.ID == "" {
		it.draft.ID = msg.UUID
	}
	if !domain.IsID(it.draft.ID) {
		return item{}, errNoID
	}
	return it, nil
}

func readPlace(position, chain string) (*place, error) {
	n, err := strconv.ParseInt(position, 10, 64)
	sum, chainErr := hex.DecodeString(chain)
	if err != nil || chainErr != nil || n < 1 || len(sum) != 32 {
		return nil, errPlace
	}
	return &place{n, [32]byte(sum)}, nil
}

// result is what became of a batch.
type result struct {
	counted

	dead []Dead
}

// append appends messages, those of a workspace in their order and several workspaces at
// once. After an error some of them may have been appended; they are skipped when they
// come again.
func (a *appender) append(ctx context.Context, b *Batch) (result, error) {
	var (
		messages = b.Messages
		r        result
		byOwner  = map[string][]item{}
		reasons  = make([]error, len(messages))
	)
	for i := range messages {
		it, err := a.readItem(i, &messages[i])
		if err != nil {
			reasons[i] = err
			continue
		}
		w := it.draft.WorkspaceID
		byOwner[w] = append(byOwner[w], it)
	}
	err := a.refuseUnknown(ctx, byOwner, reasons)
	if err != nil {
		return r, err
	}
	if r.counted, err = a.all(ctx, byOwner, reasons); err != nil {
		return r, err
	}
	for i, reason := range reasons {
		if reason != nil {
			r.dead = append(r.dead, Dead{&messages[i], reason.Error()})
		}
	}
	return r, nil
}

// mostKnown bounds the workspaces that are known to exist.
const mostKnown = 100_000

// refuseUnknown takes out the entries of producers whose workspace does not exist, and writes the
// reasons for their dead letters.
func (a *appender) refuseUnknown(ctx context.Context, byOwner map[string][]item, reasons []error) error {
	if a.create {
		return nil
	}
	var ask []string
	for w := range byOwner {
		if !a.known[w] {
			ask = append(ask, w)
		}
	}
	unknown, err := a.log.Unknown(ctx, ask...)
	if err != nil {
		return fmt.Errorf("append messages: %w", err)
	}
	if len(a.known) > mostKnown {
		clear(a.known)
	}
	for _, w := range ask {
		a.known[w] = true
	}
	for _, w := range unknown {
		delete(a.known, w)
		byOwner[w] = slices.DeleteFunc(byOwner[w], func(it item) bool {
			if it.place == nil {
				reasons[it.index] = fmt.Errorf("there is no workspace %s: make it with ledgerfeed workspace create, or set LEDGERFEED_CREATE_WORKSPACES=true", w)
			}
			return it.place == nil
		})
		if len(byOwner[w]) == 0 {
			delete(byOwner, w)
		}
	}
	return nil
}

// all appends the items of all workspaces.
func (a *appender) all(ctx context.Context, byOwner map[string][]item, reasons []error) (n counted, err error) {
	var (
		parts      = share(byOwner)
		group, own = errgroup.WithContext(ctx)
		counts     = make(chan counted, len(parts))
	)
	group.SetLimit(appends)
	for _, part := range parts {
		group.Go(func() error {
			n, err := a.part(own, part, reasons)
			counts <- n
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return n, err
	}
	close(counts)
	for one := range counts {
		n.plus(one)
	}
	return n, nil
}

// partSize is how many entries make a transaction that no further workspace is added to.
const partSize = 250

// share divides workspaces into parts, each for a transaction: where many workspaces have few
// entries each, their commits would take longer than all else.
func share(byOwner map[string][]item) (parts [][][]item) {
	size := partSize
	for _, items := range byOwner {
		if size >= partSize {
			parts, size = append(parts, nil), 0
		}
		last := len(parts) - 1
		parts[last], size = append(parts[last], items), size+len(items)
	}
	return parts
}

// part appends the items of some workspaces: in one transaction, and each workspace on its
// own where anything is in the way of that.
func (a *appender) part(ctx context.Context, part [][]item, reasons []error) (n counted, err error) {
	if len(part) > 1 {
		if receipts, ok := a.together(ctx, part, make([]error, len(reasons))); ok {
			n.add(receipts)
			return n, nil
		}
	}
	for _, items := range part {
		one, err := a.workspace(ctx, items, reasons)
		if err != nil {
			return n, err
		}
		n.plus(one)
	}
	return n, nil
}

// together appends the items of several workspaces in one transaction, if those of each can
// be appended together, and reports whether it has. Otherwise nothing was appended, and what
// is in reasons counts for nothing.
func (a *appender) together(ctx context.Context, part [][]item, reasons []error) ([]eventlog.Receipt, bool) {
	at := map[string]int64{}
	for _, items := range part {
		if first := items[0].place; first != nil && first.position > 1 {
			at[items[0].draft.WorkspaceID] = first.position - 1
		}
	}
	chains, err := eventlog.ChainsAt(ctx, a.log, at)
	if err != nil {
		return nil, false
	}
	chainAt := func(_ context.Context, workspaceID string, position int64) ([32]byte, bool, error) {
		if position == 0 {
			return domain.Genesis(workspaceID), true, nil
		}
		chain, known := chains[workspaceID]
		return chain, known, nil
	}
	var run []item
	for _, items := range part {
		ones, err := nextRun(ctx, items, reasons, chainAt)
		if err != nil || len(ones) < len(items) || (items[0].place == nil) != (part[0][0].place == nil) {
			return nil, false
		}
		run = append(run, ones...)
	}
	receipts, err := a.appendRun(ctx, run)
	return receipts, err == nil
}

type counted struct{ appended, skipped int }

func (n *counted) plus(other counted) {
	n.appended += other.appended
	n.skipped += other.skipped
}

func (n *counted) add(receipts []eventlog.Receipt) {
	for i := range receipts {
		if receipts[i].Skipped {
			n.skipped++
		} else {
			n.appended++
		}
	}
}

// workspace appends items of one workspace. It writes the reasons for dead letters to
// their places in reasons.
func (a *appender) workspace(ctx context.Context, items []item, reasons []error) (n counted, err error) {
	most := appendSize
	for len(items) > 0 {
		run, err := nextRun(ctx, items[:min(len(items), most)], reasons, a.chainAt)
		if err != nil {
			return n, err
		}
		if len(run) == 0 { // the first one became a dead letter
			items = items[1:]
			continue
		}
		receipts, err := a.appendRun(ctx, run)
		if err == nil {
			n.add(receipts)
			items, most = items[len(run):], appendSize
			continue
		}
		at, reason := refusedAt(err, run)
		if reason == nil && unfit(err) {
			if len(run) > 1 { // the error does not say which one it is
				most = len(run) / 2
				continue
			}
			reason = err
		}
		if reason == nil {
			return n, err
		}
		if at > 0 { // those before it are appended without it
			if receipts, err = a.appendRun(ctx, run[:at]); err != nil {
				return n, err
			}
			n.add(receipts)
		}
		reasons[run[at].index] = reason
		items = items[at+1:]
	}
	return n, nil
}

// unfit reports whether the database takes an entry never, for what is in it: by a constraint that
// this program does not know, an encoding, a bound of its own.
func unfit(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(of.Code) == 5 && slices.Contains([]string{"22", "23", "54"}, of.Code[:2])
}

// refusedAt is the index of the entry that the log refuses, whenever it comes, with the
// reason; nil: the error is another one.
func refusedAt(err error, run []item) (index int, reason error) {
	if r, ok := errors.AsType[*eventlog.RefusedError](err); ok {
		return r.Index, r
	}
	if m, ok := errors.AsType[*eventlog.MovedError](err); ok && m.Away {
		return 0, m // others do not wait for it
	}
	if d, ok := errors.AsType[*eventlog.DivergedError](err); ok && run[0].place != nil {
		return int(d.Position - run[0].place.position), fmt.Errorf("position %d of %s: %w", d.Position, d.WorkspaceID, errOtherChain)
	}
	return 0, nil
}

// nextRun is the items of a workspace at the beginning that can be appended together: those of producers,
// or those of a relay at positions one after the other, whose chain is that of this log.
func nextRun(ctx context.Context, items []item, reasons []error, chainAt chainFunc) ([]item, error) {
	run := items[:min(len(items), appendSize)]
	first := run[0].place
	if first == nil {
		if end := slices.IndexFunc(run, func(i item) bool { return i.place != nil }); end > 0 {
			run = run[:end]
		}
		return run, nil
	}
	chain, known, err := chainAt(ctx, run[0].draft.WorkspaceID, first.position-1)
	if err != nil {
		return nil, err
	}
	for i := range run {
		it := &run[i]
		if it.place == nil || it.place.position != first.position+int64(i) {
			return run[:i], nil
		}
		e := domain.Entry{Position: it.place.position, ID: it.draft.ID, Type: it.draft.Type, CreatedAt: it.draft.CreatedAt, Data: it.draft.Data}
		if chain = e.ChainAfter(chain); !known || chain != it.place.chain {
			if i == 0 {
				reasons[it.index] = fmt.Errorf("position %d of %s: %w", it.place.position, it.draft.WorkspaceID, errOtherChain)
			}
			return run[:i], nil
		}
	}
	return run, nil
}

// chainFunc is chainAt, of workspaces and positions that it knows.
type chainFunc func(ctx context.Context, workspaceID string, position int64) (chain [32]byte, known bool, err error)

// chainAt is the chain of a workspace at a position; known is false where its log has not
// come so far.
func (a *appender) chainAt(ctx context.Context, workspaceID string, position int64) (chain [32]byte, known bool, err error) {
	if position == 0 {
		return domain.Genesis(workspaceID), true, nil
	}
	e, err := a.log.EntryAt(ctx, workspaceID, position)
	if err != nil || e == nil {
		return chain, false, err
	}
	return e.Chain, true, nil
}

func (a *appender) appendRun(ctx context.Context, run []item) ([]eventlog.Receipt, error) {
	drafts := make([]domain.Draft, len(run))
	for i := range run {
		drafts[i] = run[i].draft
	}
	if run[0].place != nil {
		first := map[string]int64{}
		for i := range slices.Backward(run) {
			first[run[i].draft.WorkspaceID] = run[i].place.position
		}
		receipts, err := a.log.Restore(ctx, first, drafts...)
		if err != nil {
			return nil, fmt.Errorf("append entries of a relay: %w", err)
		}
		return receipts, nil
	}
	receipts, err := a.log.Append(ctx, drafts...)
	if err != nil {
		return nil, fmt.Errorf("append messages: %w", err)
	}
	return receipts, nil
}
