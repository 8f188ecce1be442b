package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

const (
	// firstWait is the wait after a failed attempt. It doubles up to longestWait.
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second

	// finishTimeout bounds the work after messages were appended. That work continues when the
	// program's context ends.
	finishTimeout = 30 * time.Second

	// lagInterval is how often the source is asked for its lag and its dead letters.
	lagInterval = 5 * time.Second
)

// Config configures an Ingest.
type Config struct {
	Source Source // closed by Run
	Rules  Rules  // of the source

	// CreateWorkspaces creates the workspaces of entries if they do not exist. A relay's entries
	// create theirs in either case.
	CreateWorkspaces bool

	Log     *eventlog.Log
	Logger  *slog.Logger
	Clock   func() time.Time
	Metrics prometheus.Registerer // nil: none
}

// Ingest appends the messages of a source while it runs. Any number of processes may ingest the
// same source.
type Ingest struct {
	source   Source
	appender appender
	logger   *slog.Logger
	clock    func() time.Time
	metrics  *metrics
	counting flow.Outage // of dead letters

	mu     sync.Mutex
	reason error     // why messages cannot be ingested; nil: they can. Guarded by mu
	since  time.Time // guarded by mu
}

var errNotTried = errors.New("the source has not answered yet")

// New makes an Ingest; Run starts it.
func New(cfg Config) (*Ingest, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.Logger == nil || cfg.Clock == nil {
		return nil, errors.New("ingest: Config needs a Source, a Log, a Logger and a Clock")
	}
	i := &Ingest{
		source: cfg.Source, appender: appender{log: cfg.Log, rules: cfg.Rules, create: cfg.CreateWorkspaces, known: map[string]bool{}, retried: map[entryKey]bool{}}, logger: cfg.Logger, clock: cfg.Clock, reason: errNotTried, since: cfg.Clock(),
		counting: flow.Outage{Logger: cfg.Logger, Failing: "cannot count dead letters; trying again until it works", Working: "dead letters are counted again"},
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

// set records how an attempt ended, and logs a change.
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

// Run appends until ctx ends, and finishes the batch in flight.
func (i *Ingest) Run(ctx context.Context) error {
	defer i.source.Close()
	var (
		wait  = firstWait
		asked time.Time
	)
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(asked) > lagInterval { // not the injected clock: this limits the load on the source
			i.measure(ctx)
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
		flow.Sleep(ctx, wait)
		wait = min(2*wait, longestWait)
	}
	return nil
}

// measure asks the source for its lag and its dead letters.
func (i *Ingest) measure(ctx context.Context) {
	if lag, err := i.source.Lag(ctx); err == nil && lag >= 0 {
		i.metrics.lag.Set(float64(lag))
	}
	if i.Probe(ctx) != nil {
		return // why is logged and answered already
	}
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n, err := i.source.Waiting(limited)
	if err == nil {
		i.metrics.deadLetters.WithLabelValues(i.source.Name()).Set(float64(n))
	}
	if ctx.Err() == nil {
		i.counting.LogTransition(ctx, err)
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
	// appends bounds the transactions that append at the same time.
	appends = 4
	// appendSize is the most entries in one append.
	appendSize = 1000
)

// item is the entry in a message.
type item struct {
	index int // of the message in its batch
	draft domain.Draft
	place *place // its position and chain in the relay's log; nil: the message is from a producer
}

// place is a position in a log, with the chain there.
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
	create bool            // create workspaces that do not exist
	known  map[string]bool // workspaces that exist; used only by append

	// retried has the last entries that Retry has appended, up to mostKnown. They are no newer than the
	// letters behind theirs.
	retried map[entryKey]bool
}

// entryKey names an entry.
type entryKey struct{ workspaceID, id string }

// readItem reads a message. Its error is the reason for a dead letter.
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
	if it.place == nil && d.IsStored() {
		return item{}, eventlog.ErrStoredForm
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

// append appends messages, in order within each workspace and several workspaces at once. After an
// error some of them may have been appended; they are skipped when they come again.
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

// mostKnown bounds appender.known.
const mostKnown = 100_000

// refuseUnknown removes producers' entries whose workspace does not exist, and writes the reasons
// for their dead letters.
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

// partSize is the number of entries at which a transaction takes no further workspace.
const partSize = 250

// share groups workspaces into parts, one transaction each: if many workspaces have few entries
// each, separate commits would take longer than everything else.
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

// part appends the items of some workspaces in one transaction. If that is not possible, it appends
// each workspace separately.
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

// together appends the items of several workspaces in one transaction if each workspace's items can
// be appended together, and reports whether it has. Otherwise nothing was appended and reasons is
// meaningless.
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

// workspace appends the items of one workspace. It writes the reason for each dead letter into
// reasons, at the message's index.
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
		if at > 0 { // append those before it without it
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

// unfit reports whether the database will never take an entry because of its content: it breaks a
// constraint that this program does not know, an encoding, or a limit of the database.
func unfit(err error) bool {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(of.Code) == 5 && slices.Contains([]string{"22", "23", "54"}, of.Code[:2])
}

// refusedAt returns the index in run of an entry that the log will always refuse, and the reason.
// The reason is nil if err means something else.
func refusedAt(err error, run []item) (index int, reason error) {
	if r, ok := errors.AsType[*eventlog.RefusedError](err); ok {
		return r.Index, r
	}
	if m, ok := errors.AsType[*eventlog.MovedError](err); ok && m.Away {
		return 0, m // other workspaces must not wait for it
	}
	if d, ok := errors.AsType[*eventlog.DivergedError](err); ok && run[0].place != nil {
		return int(d.Position - run[0].place.position), fmt.Errorf("position %d of %s: %w", d.Position, d.WorkspaceID, errOtherChain)
	}
	return 0, nil
}

// nextRun returns the first items of a workspace that can be appended together: items of producers,
// or items of a relay at consecutive positions whose chain matches this log's. It returns none if
// the first item becomes a dead letter.
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
		e := it.draft.Entry()
		e.Position = it.place.position
		if chain = e.ChainAfter(chain); !known || chain != it.place.chain {
			if i == 0 {
				reasons[it.index] = fmt.Errorf("position %d of %s: %w", it.place.position, it.draft.WorkspaceID, errOtherChain)
			}
			return run[:i], nil
		}
	}
	return run, nil
}

// chainFunc is a function like chainAt.
type chainFunc func(ctx context.Context, workspaceID string, position int64) (chain [32]byte, known bool, err error)

// chainAt returns a workspace's chain at a position; known is false if its log is shorter.
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

// holdTime is how long a process that reads the stream keeps it without renewing, even if it has
// died. holdAgain is how often it renews.
const (
	holdTime  = 10 * time.Second
	holdAgain = holdTime / 4
)

// position is how far a stream was read, stored in the log's database. One process reads at a time,
// which saves the others the work. That each message is appended once and in order does not depend
// on it.
type position struct {
	pool   pg.DB
	source string
	self   string // this process
}

// hold makes this process the reader, unless another process is. created is zero if nothing was
// read yet.
func (p *position) hold(ctx context.Context) (sequence uint64, created time.Time, held bool, err error) {
	var (
		at   int64
		made *time.Time
	)
	err = p.pool.QueryRow(ctx, `
		INSERT INTO ingest_position AS i (workspace_id, source, sequence, holder, held_until)
		VALUES ('*', $1, 0, $2, statement_timestamp() + $3::interval)
		ON CONFLICT (workspace_id, source) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
		 WHERE i.holder = excluded.holder OR i.held_until < statement_timestamp()
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

var errOvertaken = errors.New("another process has read the source meanwhile")

// move advances the sequence without waiting for the disk. If a server crash loses that, messages
// that the log already has are read again and skipped.
func (p *position) move(ctx context.Context, from, to uint64) error {
	var (
		b     pgx.Batch
		moved bool
	)
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	b.Queue(`UPDATE ingest_position SET sequence = $3, moved_at = statement_timestamp() WHERE workspace_id = '*' AND source = $1 AND sequence = $2`,
		p.source, int64(from), int64(to)).Exec(func(tag pgconn.CommandTag) error {
		moved = tag.RowsAffected() > 0
		return nil
	})
	err := p.pool.SendBatch(ctx, &b).Close()
	return moveError(moved, err)
}

// restart starts over with a stream that was created again.
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
	messages    *prometheus.CounterVec
	lag         prometheus.Gauge
	deadLetters *prometheus.GaugeVec
}

// newMetrics registers the metrics unless the registerer is nil.
func newMetrics(register prometheus.Registerer, of *Ingest) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledgerfeed_ingest_messages_total",
			Help: "Messages that this process ingested, by outcome: appended; skipped, because the log had them; dead, because the log refuses them.",
		}, []string{"outcome"}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledgerfeed_ingest_lag_messages", Help: "Messages of the source that are not ingested yet."}),
		deadLetters: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledgerfeed_ingest_dead_letters", Help: fmt.Sprintf("Messages of the source that the log has refused and that wait as dead letters; %d stands for so many or more.", MostWaiting),
		}, []string{"source"}),
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
	for _, c := range []prometheus.Collector{m.messages, m.lag, m.deadLetters, up} {
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

// Source returns messages in order, starting after the last one that is done.
type Source interface {
	// Next waits for messages. It returns nil when there were none for a while.
	Next(ctx context.Context) (*Batch, error)

	// Lag returns how many messages are waiting; -1: unknown.
	Lag(ctx context.Context) (int64, error)

	// Held returns what has kept messages from being read for so long; nil: nothing that is known.
	Held(ctx context.Context, atLeast time.Duration) (*Held, error)

	DeadLetters

	Close()
}

// Message is a message of a source.
type Message struct {
	*message.Message

	Subject string   // where it was published; empty: the source has no subjects
	Tokens  []string // of the subject, after the part that the source reads
	Headers []byte   // as they came, in JSON; nil: none
	Fault   error    // why it cannot be read; nil: it can
}

// Batch is the next messages of a source. The caller calls either Done or Release.
type Batch struct {
	Messages []Message

	// Done moves the source past the messages and stores dead letters. After an error the messages
	// come again.
	Done func(ctx context.Context, dead []Dead) error

	// Release gives the messages back.
	Release func(ctx context.Context)
}

// Dead is a message that the log refuses.
type Dead struct {
	Message *Message
	Reason  string
}

// The metadata of a dead letter. It has no other metadata: brokers act on some headers, so the
// message's own headers, which its publisher chose, are packed into MetadataHeaders.
const (
	MetadataReason  = "ledgerfeed_reason"
	MetadataHeaders = "ledgerfeed_headers" // in JSON, as they came
	MetadataSubject = "ledgerfeed_subject"
	MetadataCut     = "ledgerfeed_cut" // the parts of the message that are not in the letter because they are too large
)

// The most bytes of a letter's reason and headers. A broker refuses messages with larger headers
// (NATS: 64 KiB in all), and a refused letter would block the source for good.
const (
	maxReason  = 4 << 10
	maxHeaders = 32 << 10
)

// Letter returns the dead letter as a message without a UUID.
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

// Rules say what the messages of a source may do. They are set for the source and never come with a
// message, into which its publisher may write anything.
type Rules struct {
	Relay     bool   // messages may have a position and a chain, at which their entries are restored
	Workspace string // the only workspace that entries may belong to; empty: any
	Token     int    // which token after the source's subject is the entry's workspace: 1, 2, …; 0: none
	Name      string // whose position in a stream is used; with another one, ingest begins anew
}

// The parameters of a source's address that set rules.
const (
	ruleTrust     = "trust"
	ruleWorkspace = "workspace"
	ruleToken     = "workspace_token"
	ruleName      = "name"
)

const (
	trustRelay = "relay"
	maxToken   = 16
)

var (
	errRuleTrust     = errors.New("trust is relay, or left out")
	errRuleWorkspace = errors.New("workspace is one workspace: 1 to 64 of A-Z a-z 0-9 _ -")
	errRuleToken     = fmt.Errorf("workspace_token is a number from 1 to %d: which token behind the subject is the workspace", maxToken)
	errRuleName      = errors.New("name is 1 to 64 of A-Z a-z 0-9 _ -")
	errRuleBoth      = errors.New("workspace and workspace_token exclude each other")
)

// CutRules splits a source's address into its rules and the rest. The error does not show
// passwords.
func CutRules(address string) (Rules, string, error) {
	r := Rules{Name: "ingest"}
	rest, err := relay.CutParams(address, map[string]func(string) error{ruleTrust: r.setTrust, ruleWorkspace: r.setWorkspace, ruleToken: r.setToken, ruleName: r.setName})
	if err == nil && r.Workspace != "" && r.Token > 0 {
		err = errRuleBoth
	}
	if err != nil {
		return Rules{}, "", err
	}
	return r, rest, nil
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

func (r *Rules) setName(value string) error {
	if !domain.IsID(value) {
		return errRuleName
	}
	r.Name = value
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

// place returns the entry's position and chain in the relay's log, as the message gives them; nil:
// it gives none.
func (r *Rules) place(m *Message) (*place, error) {
	position, given := m.Metadata[relay.MetadataPosition]
	chain, too := m.Metadata[relay.MetadataChain]
	if !given && !too {
		return nil, nil
	}
	if !r.Relay {
		return nil, errUntrusted
	}
	return readPlace(position, chain)
}

// permits says why a message may not append an entry to a workspace; nil: it may.
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
