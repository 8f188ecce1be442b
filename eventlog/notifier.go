package eventlog

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Topic is what a notification is about.
type Topic string

// The topics. They are also the names of PostgreSQL's notification channels.
const (
	TopicAppended  Topic = "ledgerfeed_appended"  // a workspace has new entries
	TopicProjected Topic = "ledgerfeed_projected" // a workspace's visible position has moved
)

func topics() []Topic { return []Topic{TopicAppended, TopicProjected} }

// NotifyFunc is called after a commit with the workspaces that changed, such as [Notifier.Notify].
// It must not block.
type NotifyFunc func(topic Topic, workspaceIDs ...string)

// Notifier tells subscribers which workspaces have changed: at once inside the process, and in
// other processes by PostgreSQL's NOTIFY. It sends the NOTIFY after the commit, for all workspaces
// that changed within some milliseconds, because a NOTIFY inside the appending transaction halves
// the throughput. A notification may be lost, so subscribers also sweep.
type Notifier struct {
	pool   pg.DB
	logger *slog.Logger
	self   string // names this process in payloads, so that it skips its own

	direct *pgx.ConnConfig // where it listens; nil: where the pool connects
	deaf   bool            // it has no connection that can receive NOTIFY

	followSweep time.Duration // tests change it
	quiet       time.Duration // see await; tests change it

	projects atomic.Bool // whether this process projects
	peers    peers       // the other processes that project

	sent, received, interrupted atomic.Uint64 // see NotifierStats
	listening                   atomic.Pointer[Listening]

	mu            sync.Mutex
	subscriptions map[Topic]map[*Subscription]struct{}
	unsent        map[Topic]map[string]struct{} // workspaces to NOTIFY other processes of
	sends         bool                          // a goroutine sends them

	flushing sync.Mutex // held while unsent is sent, so that Flush returns only after that
}

// NewNotifier makes a Notifier. Without Run it does not hear of other processes, but still notifies
// them.
func NewNotifier(pool pg.DB, logger *slog.Logger) *Notifier {
	n := &Notifier{
		pool:          pool,
		logger:        logger,
		self:          uuid.NewString(),
		subscriptions: map[Topic]map[*Subscription]struct{}{},
		unsent:        map[Topic]map[string]struct{}{},
		followSweep:   followSweep,
		quiet:         time.Minute,
	}
	n.listening.Store(&Listening{Reason: "not connected yet"})
	return n
}

// ListenAt makes the Notifier listen on a direct connection. It is for a pool that goes through a
// pooler, because a pooler does not pass notifications on. With nil, the Notifier does not listen,
// and sweeps find the changes of other processes. Call it before Run.
func (n *Notifier) ListenAt(direct *pgx.ConnConfig) { n.direct, n.deaf = direct, direct == nil }

// Listening returns whether this process hears of the changes of others; nil: it does not listen.
// Otherwise sweeps find these changes. It may be called at any time after ListenAt.
func (n *Notifier) Listening() *Listening {
	if n.deaf {
		return nil
	}
	return n.listening.Load()
}

// NotifierStats counts notifications between processes since the start.
type NotifierStats struct {
	Sent, Received uint64
	Interrupted    uint64 // how often receiving was interrupted, so that sweeps must find the changes
}

// Stats returns the counts. It may be called at any time.
func (n *Notifier) Stats() NotifierStats {
	return NotifierStats{n.sent.Load(), n.received.Load(), n.interrupted.Load()}
}

// Subscription collects the workspaces of notifications.
type Subscription struct {
	// C receives when there is something to Take.
	C chan struct{}

	mu  sync.Mutex
	ids map[string]bool // by workspace, whether this process changed it
	all bool
}

// Take returns the workspaces that changed since the last call. If all is true, any workspace may
// have changed, because the connection that listens was lost: sweep.
func (s *Subscription) Take() (ids []string, all bool) {
	own, others, all := s.takeApart()
	return append(own, others...), all
}

// takeApart is Take, but returns the workspaces that this process changed separately from those
// that only others changed.
func (s *Subscription) takeApart() (own, others []string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, mine := range s.ids {
		if mine {
			own = append(own, id)
		} else {
			others = append(others, id)
		}
	}
	all = s.all
	s.ids, s.all = nil, false
	return own, others, all
}

func (s *Subscription) add(ids []string, own, all bool) {
	s.mu.Lock()
	if s.ids == nil {
		s.ids = make(map[string]bool, len(ids))
	}
	for _, id := range ids {
		s.ids[id] = s.ids[id] || own
	}
	s.all = s.all || all
	s.mu.Unlock()
	putToken(s.C)
}

// putToken puts a token into a channel of capacity one, unless it already holds one.
func putToken(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Subscribe starts a subscription; the returned function ends it.
func (n *Notifier) Subscribe(topic Topic) (*Subscription, func()) {
	s := &Subscription{C: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.subscriptions[topic] == nil {
		n.subscriptions[topic] = map[*Subscription]struct{}{}
	}
	n.subscriptions[topic][s] = struct{}{}
	return s, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.subscriptions[topic], s)
	}
}

// followSweep is the longest time between two passes of Follow.
const followSweep = time.Second

// Follow calls pass at once, after notifications of a topic, and at least once each followSweep. It
// returns the error of pass if pass fails, and the cause of ctx if ctx ends.
func (n *Notifier) Follow(ctx context.Context, topic Topic, pass func(context.Context) error) error {
	s, unsubscribe := n.Subscribe(topic)
	defer unsubscribe()
	sweep := time.NewTicker(n.followSweep)
	defer sweep.Stop()
	for {
		if err := pass(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.C:
			s.Take()
		case <-sweep.C:
		}
	}
}

// Notify notifies the subscribers of a topic: in this process at once, in others
// with the next NOTIFY.
func (n *Notifier) Notify(topic Topic, workspaceIDs ...string) {
	if len(workspaceIDs) == 0 {
		return
	}
	n.notifyLocal(topic, workspaceIDs, true, false)
	n.mu.Lock()
	if n.unsent[topic] == nil {
		n.unsent[topic] = map[string]struct{}{}
	}
	for _, id := range workspaceIDs {
		n.unsent[topic][id] = struct{}{}
	}
	if !n.sends && n.pool != nil {
		n.sends = true
		go n.send()
	}
	n.mu.Unlock()
}

func (n *Notifier) notifyLocal(topic Topic, ids []string, own, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subscriptions[topic] {
		s.add(ids, own, all)
	}
}

const (
	// notifyPause is the time between two NOTIFYs, in which changed workspaces collect.
	notifyPause = 2 * time.Millisecond
	// maxPayload is below PostgreSQL's limit of 8,000 bytes.
	maxPayload = 7900
	// sendTimeout bounds a round of notifications.
	sendTimeout = 5 * time.Second
	// retryPause is the wait before the database is tried again.
	retryPause = 500 * time.Millisecond
)

// Run receives the notifications of other processes until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	if !n.deaf {
		cfg := n.direct
		if cfg == nil {
			cfg = pg.ConfigOf(n.pool)
		}
		n.listen(ctx, cfg)
	}
	<-ctx.Done() // also if nothing can be received
	return nil
}

// Flush sends the notifications that are not sent yet, for a program that is about to end.
func (n *Notifier) Flush(ctx context.Context) error {
	n.flushing.Lock()
	defer n.flushing.Unlock()
	n.mu.Lock()
	unsent := n.unsent
	n.unsent = map[Topic]map[string]struct{}{}
	n.mu.Unlock()
	for topic, ids := range unsent {
		list := payloads(n.sender(), ids)
		if err := n.notify(ctx, topic, list); err != nil {
			return err
		}
		n.sent.Add(uint64(len(list)))
	}
	return nil
}

// notify sends payloads by PostgreSQL's NOTIFY.
func (n *Notifier) notify(ctx context.Context, topic Topic, list []string) error {
	for _, payload := range list {
		if _, err := n.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, string(topic), payload); err != nil {
			return fmt.Errorf("notify %s: %w", topic, err)
		}
	}
	return nil
}

// send sends notifications until none is left. It works without Run, so that every process that
// appends notifies the processes that serve.
func (n *Notifier) send() {
	for more := true; more; {
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		if err := n.Flush(ctx); err != nil {
			n.logger.WarnContext(ctx, "cannot notify other processes; they find the changes by their sweeps", "error", err)
		}
		flow.Sleep(ctx, notifyPause)
		cancel()
		n.mu.Lock()
		more = len(n.unsent) > 0
		n.sends = more
		n.mu.Unlock()
	}
}

// projecting follows the id of a sender that projects.
const projecting = "+"

// sender returns the name of this process in payloads.
func (n *Notifier) sender() string {
	if n.projects.Load() {
		return n.self + projecting
	}
	return n.self
}

// payloads packs workspace ids into payloads that begin with the sender's id.
func payloads(self string, ids map[string]struct{}) []string {
	var (
		list []string
		b    strings.Builder
	)
	for id := range ids {
		if b.Len()+len(id)+1 > maxPayload {
			list = append(list, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(self)
		}
		b.WriteByte(' ')
		b.WriteString(id)
	}
	if b.Len() > 0 {
		list = append(list, b.String())
	}
	return list
}

// take passes a payload from another process on to the subscribers in this one.
func (n *Notifier) take(topic Topic, payload string) {
	sender, rest, _ := strings.Cut(payload, " ")
	sender, projects := strings.CutSuffix(sender, projecting)
	if sender == n.self {
		return
	}
	n.received.Add(1)
	if projects {
		n.peers.hear(sender)
	}
	n.notifyLocal(topic, strings.Fields(rest), false, false)
}

// notifyAll makes every subscriber sweep, because anything may have changed while this process
// received no notifications.
func (n *Notifier) notifyAll() {
	for _, topic := range topics() {
		n.notifyLocal(topic, nil, false, true)
	}
}

// notifyInTx notifies the subscribers of all processes, this one included, when
// the transaction commits.
func notifyInTx(ctx context.Context, tx pgx.Tx, topic Topic, workspaceID string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, string(topic), "- "+workspaceID); err != nil {
		return fmt.Errorf("notify %s: %w", topic, err)
	}
	return nil
}

// listen receives PostgreSQL's notifications until ctx ends. An interruption is logged once.
func (n *Notifier) listen(ctx context.Context, cfg *pgx.ConnConfig) {
	for told := false; ctx.Err() == nil; {
		heard, err := n.listenOnce(ctx, cfg)
		if ctx.Err() != nil {
			return
		}
		n.interrupted.Add(1)
		n.listening.Store(&Listening{Reason: "the connection that listens is lost, or cannot be opened"}) // err may contain the database's address, which only the log may show
		if heard || !told {
			n.logger.WarnContext(ctx, "cannot receive notifications of other processes; their changes are found by sweeps until it can",
				"error", err, "retried_every", retryPause)
		}
		told = true
		if !flow.Sleep(ctx, retryPause) {
			return
		}
	}
}

// closeTimeout bounds how long a connection that is no longer needed may take to
// close.
const closeTimeout = time.Second

// listenOnce receives notifications until the connection is lost. heard reports whether there was a
// connection that listened.
func (n *Notifier) listenOnce(ctx context.Context, cfg *pgx.ConnConfig) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	if err := listenOn(ctx, conn); err != nil {
		return false, err
	}
	n.listening.Store(&Listening{Connected: true})
	n.notifyAll()
	for {
		received, err := n.await(ctx, conn)
		if err != nil {
			return true, fmt.Errorf("wait for a notification: %w", err)
		}
		n.take(Topic(received.Channel), received.Payload)
	}
}

// await waits for a notification. After a while without one it asks whether the server is still there:
// a link may have gone silent, and then nothing comes for good.
func (n *Notifier) await(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, n.quiet)
		received, err := conn.WaitForNotification(quiet)
		cancel()
		if err == nil || ctx.Err() != nil || conn.IsClosed() {
			return received, err //nolint:wrapcheck // wrapped by listenOnce
		}
		if err := listenOn(ctx, conn); err != nil { // which changes nothing, and is answered
			return nil, err
		}
	}
}

// listenTimeout limits the wait for an answer.
const listenTimeout = 5 * time.Second

// listenOn asks for the notifications of all topics.
func listenOn(ctx context.Context, conn *pgx.Conn) error {
	return pg.Within(ctx, listenTimeout, func(ctx context.Context) error {
		for _, topic := range topics() {
			if _, err := conn.Exec(ctx, "LISTEN "+string(topic)); err != nil {
				return fmt.Errorf("listen: %w", err)
			}
		}
		return nil
	})
}

// Listening is the state of the connection on which notifications are received.
type Listening struct {
	Connected bool   `json:"connected"`
	Reason    string `json:"reason,omitempty"` // why it is not connected
}

// All processes that project hear of an append at the same moment. Without an order among them, the
// one that PostgreSQL notifies first (it has listened longest) gets most of the workspaces, and all
// others look for locks in vain. So rendezvous hashing gives each workspace a preferred process.
// That process claims at once, and the others yield to it for a moment. Correctness does not depend
// on this. If two processes do not know each other, both claim and one gets the lock. If the
// preferred process leaves a workspace undone, the others claim it a moment later.

const (
	// yieldTime is how long a process leaves a workspace to the preferred one: much longer than a
	// claim takes to begin, and much shorter than it takes to notice a dead process.
	yieldTime = 100 * time.Millisecond
	// peerTime is how long a process that projects stays known after its last notification.
	peerTime = 10 * time.Second
)

// peers are the other processes that project. Their notifications make them known, which costs no
// statement. The others do not prefer a process that has projected nothing yet. It prefers itself,
// and becomes known once it was the first to claim a workspace.
type peers struct {
	mu    sync.Mutex
	heard map[string]time.Time // by the id of the process; not the injected clock, which may stand still
}

func (p *peers) hear(process string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[string]time.Time{}
	}
	p.heard[process] = time.Now()
}

// living returns the processes heard of within peerTime, and forgets the others.
func (p *peers) living() (processes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for process, at := range p.heard {
		if time.Since(at) > peerTime {
			delete(p.heard, process)
			continue
		}
		processes = append(processes, process)
	}
	return processes
}

// preferred splits workspaces: this process is preferred for mine and leaves the others to its
// peers.
func (n *Notifier) preferred(workspaceIDs []string) (mine, others []string) {
	living := n.peers.living()
	if len(living) == 0 {
		return workspaceIDs, nil
	}
	self, rivals := hashOf(n.self), make([]uint64, len(living))
	for i, process := range living {
		rivals[i] = hashOf(process)
	}
	for _, id := range workspaceIDs {
		workspace := hashOf(id)
		if first(workspace, self, rivals) {
			mine = append(mine, id)
		} else {
			others = append(others, id)
		}
	}
	return mine, others
}

// first reports whether a process has the highest weight for a workspace.
func first(workspace, self uint64, rivals []uint64) bool {
	own := weight(workspace, self)
	for _, r := range rivals {
		if weight(workspace, r) > own {
			return false
		}
	}
	return true
}

// weight mixes two hashes, in the same way in every process.
func weight(workspace, process uint64) uint64 {
	return rand.NewPCG(workspace, process).Uint64()
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}
