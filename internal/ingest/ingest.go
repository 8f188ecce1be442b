package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// firstWait doubles until longestWait between two attempts that fail.
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second

	// finishTimeout bounds what happens after messages were appended. It does not end with
	// the program's context.
	finishTimeout = 30 * time.Second

	// lagInterval is how often the lag is asked for.
	lagInterval = 5 * time.Second
)

// Config of an Ingest.
type Config struct {
	Source Source // closed by Run
	Rules  Rules  // of the source

	// CreateWorkspaces makes the workspaces of entries that do not exist yet. A relay's exist or are
	// made in either case.
	CreateWorkspaces bool

	Log     *eventlog.Log
	Logger  *slog.Logger
	Clock   func() time.Time
	Metrics prometheus.Registerer // nil: none
}

// Ingest appends the messages of a source while it runs. Any number of processes may run
// one of the same source.
type Ingest struct {
	source   Source
	appender appender
	logger   *slog.Logger
	clock    func() time.Time
	metrics  *metrics

	mu     sync.Mutex
	reason error     // why it cannot go on; nil: it can. Guarded by mu
	since  time.Time // guarded by mu
}

var errNotTried = errors.New("the source has not answered yet")

// New makes an Ingest; Run starts it.
func New(cfg Config) (*Ingest, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.Logger == nil || cfg.Clock == nil {
		return nil, errors.New("ingest: Config needs a Source, a Log, a Logger and a Clock")
	}
	i := &Ingest{
		source: cfg.Source, appender: appender{log: cfg.Log, rules: cfg.Rules, create: cfg.CreateWorkspaces, known: map[string]bool{}}, logger: cfg.Logger, clock: cfg.Clock, reason: errNotTried, since: cfg.Clock(),
	}
	var err error
	i.metrics, err = newMetrics(cfg.Metrics, i)
	return i, err
}

// Probe says why messages cannot be appended, and since when; nil: they can.
func (i *Ingest) Probe(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reason == nil {
		return nil
	}
	return fmt.Errorf("nothing can be ingested since %s: %w", i.since.UTC().Format(time.RFC3339), i.reason)
}

// set notes how an attempt ended, and logs when that changes.
func (i *Ingest) set(ctx context.Context, reason error) {
	i.mu.Lock()
	was := i.reason
	if was == nil && reason != nil {
		i.since = i.clock()
	}
	i.reason = reason
	i.mu.Unlock()
	switch {
	case reason != nil && (was == nil || errors.Is(was, errNotTried)):
		i.logger.ErrorContext(ctx, "messages cannot be ingested; trying again", "error", reason)
	case reason == nil && was != nil:
		i.logger.InfoContext(ctx, "messages can be ingested")
	}
}

// Run appends until ctx ends, and finishes what is under way.
func (i *Ingest) Run(ctx context.Context) error {
	defer i.source.Close()
	var (
		wait  = firstWait
		asked time.Time
	)
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(asked) > lagInterval { // not of the injected clock: it is about the load of the source
			i.askLag(ctx)
			asked = now
		}
		err := i.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		i.set(ctx, err)
		if err == nil {
			wait = firstWait
			continue
		}
		flow.Pause(ctx, wait)
		wait = min(2*wait, longestWait)
	}
	return nil
}

func (i *Ingest) askLag(ctx context.Context) {
	if lag, err := i.source.Lag(ctx); err == nil && lag >= 0 {
		i.metrics.lag.Set(float64(lag))
	}
}

// once appends the next messages.
func (i *Ingest) once(ctx context.Context) error {
	b, err := i.source.Next(ctx)
	if err != nil || b == nil {
		return err
	}
	result, err := i.appender.append(ctx, b)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err != nil {
		b.Release(finish)
		return err
	}
	if err := b.Done(finish, result.dead); err != nil {
		return err
	}
	for _, d := range result.dead {
		i.logger.WarnContext(ctx, "a message became a dead letter", "message", d.Message.UUID, "reason", d.Reason)
	}
	i.metrics.count(&result)
	return nil
}

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

// holdTime is how long the stream is left to a process that has died, and holdAgain how long
// a process reads before it says again that it does.
const (
	holdTime  = 10 * time.Second
	holdAgain = holdTime / 4
)

// position is how far a stream was read, in the database of the log. That one process
// reads at a time spares the others the work; that each message is appended once and in
// order does not depend on it.
type position struct {
	pool   *pgxpool.Pool
	source string
	self   string // this process
}

// hold makes this process the one that reads, unless another one is. created is zero
// where nothing was read yet.
func (p *position) hold(ctx context.Context) (sequence uint64, created time.Time, held bool, err error) {
	var (
		at   int64
		made *time.Time
	)
	err = p.pool.QueryRow(ctx, `
		INSERT INTO ingest_position AS i (workspace_id, source, sequence, holder, held_until)
		VALUES ('*', $1, 0, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (workspace_id, source) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
		 WHERE i.holder = excluded.holder OR i.held_until < clock_timestamp()
		RETURNING sequence, stream_created`, p.source, p.self, holdTime).Scan(&at, &made)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, created, false, nil
	}
	if err != nil {
		return 0, created, false, fmt.Errorf("find out where the stream is read on: %w", err)
	}
	if made != nil {
		created = *made
	}
	return uint64(at), created, true, nil
}

var errOvertaken = errors.New("another process has read the stream meanwhile")

// move moves the sequence. It does not wait for the disk: where a crash of the server takes it
// back, messages are read again that the log has, and are skipped.
func (p *position) move(ctx context.Context, from, to uint64) error {
	var (
		b     pgx.Batch
		moved bool
	)
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	b.Queue(`UPDATE ingest_position SET sequence = $3, moved_at = clock_timestamp() WHERE workspace_id = '*' AND source = $1 AND sequence = $2`,
		p.source, int64(from), int64(to)).Exec(func(tag pgconn.CommandTag) error {
		moved = tag.RowsAffected() > 0
		return nil
	})
	err := p.pool.SendBatch(ctx, &b).Close()
	return moveError(moved, err)
}

// restart begins with another stream.
func (p *position) restart(ctx context.Context, from uint64, created time.Time) error {
	tag, err := p.pool.Exec(ctx, `UPDATE ingest_position SET sequence = 0, stream_created = $3 WHERE workspace_id = '*' AND source = $1 AND sequence = $2`,
		p.source, int64(from), created)
	return moveError(tag.RowsAffected() > 0, err)
}

func moveError(moved bool, err error) error {
	if err != nil {
		return fmt.Errorf("note how far the stream was read: %w", err)
	}
	if !moved {
		return errOvertaken
	}
	return nil
}

type metrics struct {
	messages *prometheus.CounterVec
	lag      prometheus.Gauge
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer, of *Ingest) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_ingest_messages_total",
			Help: "Messages that this process ingested, by outcome: appended; skipped, because the log had them; dead, because the log refuses them.",
		}, []string{"outcome"}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledgerfeed_ingest_lag_messages", Help: "Messages of the source that are not ingested yet."}),
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_ingest_source_up", Help: "1 while messages of the source can be ingested, 0 otherwise.",
	}, func() float64 {
		if of.Probe(context.Background()) != nil {
			return 0
		}
		return 1
	})
	for _, outcome := range []string{"appended", "skipped", "dead"} {
		m.messages.WithLabelValues(outcome)
	}
	if register == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.lag, up} {
		if err := register.Register(c); err != nil {
			return nil, fmt.Errorf("ingest: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(r *result) {
	m.messages.WithLabelValues("appended").Add(float64(r.appended))
	m.messages.WithLabelValues("skipped").Add(float64(r.skipped))
	m.messages.WithLabelValues("dead").Add(float64(len(r.dead)))
}

// Source gives messages in an order, from behind those that are done.
type Source interface {
	// Next waits for messages. It returns nil when there were none for a while.
	Next(ctx context.Context) (*Batch, error)

	// Lag is how many messages are waiting. -1: it is not known.
	Lag(ctx context.Context) (int64, error)

	Close()
}

// Message is a message of a source.
type Message struct {
	*message.Message

	Subject string   // where it was published; empty: the source has no subjects
	Tokens  []string // of the subject, behind the one that the source reads
	Headers []byte   // as they came, in JSON; nil: none
	Fault   error    // why it cannot be read; nil: it can
}

// Batch is the next messages of a source. One of Done and Release is called.
type Batch struct {
	Messages []Message

	// Done moves the source behind the messages, and keeps dead letters. After an error
	// the messages come again.
	Done func(ctx context.Context, dead []Dead) error

	// Release gives the messages back.
	Release func(ctx context.Context)
}

// Dead is a message that the log refuses.
type Dead struct {
	Message *Message
	Reason  string
}

// The metadata of a dead letter. It has no other: a broker obeys some headers, so those of the
// message, which its publisher chose, are inside one of ours.
const (
	MetadataReason  = "ledgerfeed_reason"
	MetadataHeaders = "ledgerfeed_headers" // in JSON, as they came
	MetadataSubject = "ledgerfeed_subject"
	MetadataCut     = "ledgerfeed_cut" // what of the message is not in the letter, because it is too large
)

// The most bytes of what is in a letter's metadata. A broker refuses a message with larger headers
// (NATS: 64 KiB in all), and a letter that it refuses would hold the source up for good.
const (
	maxReason  = 4 << 10
	maxHeaders = 32 << 10
)

// Letter is the dead letter as a message, without the UUID.
func (d *Dead) Letter() *message.Message {
	letter := message.NewMessage("", d.Message.Payload)
	letter.Metadata.Set(MetadataReason, short(d.Reason))
	if d.Message.Subject != "" {
		letter.Metadata.Set(MetadataSubject, d.Message.Subject)
	}
	switch n := len(d.Message.Headers); {
	case n > maxHeaders:
		letter.Metadata.Set(MetadataCut, fmt.Sprintf("the headers (%d bytes)", n))
	case n > 0:
		letter.Metadata.Set(MetadataHeaders, string(d.Message.Headers))
	}
	return letter
}

func short(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}

// Rules say what the messages of a source may do. They belong to the source, and never come with a
// message: its publisher may write anything into it.
type Rules struct {
	Relay     bool   // messages may bring a position and a chain, and are restored there
	Workspace string // the only workspace that entries may be of; empty: any
	Token     int    // which token behind the subject is the workspace of the entry: 1, 2, …; 0: none
}

// The parameters of an address that are rules.
const (
	ruleTrust     = "trust"
	ruleWorkspace = "workspace"
	ruleToken     = "workspace_token"
)

const (
	trustRelay = "relay"
	maxToken   = 16
)

var (
	errRuleTrust     = errors.New("trust is relay, or left out")
	errRuleWorkspace = errors.New("workspace is one workspace: 1 to 64 of A-Z a-z 0-9 _ -")
	errRuleToken     = fmt.Errorf("workspace_token is a number from 1 to %d: which token behind the subject is the workspace", maxToken)
	errRuleBoth      = errors.New("workspace and workspace_token exclude each other")
)

// CutRules takes the rules out of the address of a source. The error does not show passwords.
func CutRules(address string) (Rules, string, error) {
	var r Rules
	base, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return r, "", errors.New("what follows the ? is not of the form name=value&name=value")
	}
	for name, read := range map[string]func(string) error{ruleTrust: r.setTrust, ruleWorkspace: r.setWorkspace, ruleToken: r.setToken} {
		given, there := values[name]
		if !there {
			continue
		}
		if len(given) > 1 {
			return Rules{}, "", fmt.Errorf("%s is there twice", name)
		}
		if err := read(given[0]); err != nil {
			return Rules{}, "", err
		}
		values.Del(name)
		address = base + "?" + values.Encode()
	}
	if r.Workspace != "" && r.Token > 0 {
		return Rules{}, "", errRuleBoth
	}
	return r, strings.TrimSuffix(address, "?"), nil
}

func (r *Rules) setTrust(value string) error {
	if value != trustRelay {
		return errRuleTrust
	}
	r.Relay = true
	return nil
}

func (r *Rules) setWorkspace(value string) error {
	if !domain.IsID(value) {
		return errRuleWorkspace
	}
	r.Workspace = value
	return nil
}

func (r *Rules) setToken(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxToken {
		return errRuleToken
	}
	r.Token = n
	return nil
}

var errUntrusted = errors.New("the message has a position or a chain, as a relay gives them, and this source is not trusted as one: " +
	"if nobody but a relay can publish to it, add trust=relay to LEDGERFEED_INGEST_URL")

// place is where the message says that a relay found its entry; nil: it says nothing.
func (r *Rules) place(m *Message) (*place, error) {
	position, given := m.Metadata[bus.MetadataPosition]
	chain, too := m.Metadata[bus.MetadataChain]
	if !given && !too {
		return nil, nil
	}
	if !r.Relay {
		return nil, errUntrusted
	}
	return readPlace(position, chain)
}

// permits says why a message may not bring an entry of a workspace; nil: it may.
func (r *Rules) permits(m *Message, workspaceID string) error {
	if r.Workspace != "" && workspaceID != r.Workspace {
		return fmt.Errorf("the entry is of the workspace %s, and this source is bound to %s (workspace in LEDGERFEED_INGEST_URL)", workspaceID, r.Workspace)
	}
	if r.Token == 0 {
		return nil
	}
	if len(m.Tokens) < r.Token {
		return fmt.Errorf("the subject %s has no token %d that could be the workspace (workspace_token in LEDGERFEED_INGEST_URL)", m.Subject, r.Token)
	}
	if bound := m.Tokens[r.Token-1]; bound != workspaceID {
		return fmt.Errorf("the entry is of the workspace %s, and the subject %s is bound to %s (workspace_token in LEDGERFEED_INGEST_URL)", workspaceID, m.Subject, bound)
	}
	return nil
}
