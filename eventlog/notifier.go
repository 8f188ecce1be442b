package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// Topic is something worth waking up for.
type Topic string

// The topics. They are also the names of PostgreSQL's notification channels.
const (
	TopicAppended  Topic = "ledgerfeed_appended"  // a workspace has new entries
	TopicProjected Topic = "ledgerfeed_projected" // a workspace's visible position has moved
)

func topics() []Topic { return []Topic{TopicAppended, TopicProjected} }

// Notifier carries wake-ups: at once inside the process, and to other processes by
// NOTIFY, sent after the commit and coalesced, because a NOTIFY inside the
// appending transaction halves its throughput. A wake-up may be lost; whoever
// waits also sweeps.
type Notifier struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
	self   string // this process in payloads, so that it does not wake itself twice

	mu      sync.Mutex
	waiters map[Topic]map[*Subscription]struct{}
	unsent  map[Topic]map[string]struct{}
	kick    chan struct{}
}

// NewNotifier makes a Notifier. Without Run it wakes only inside the process.
func NewNotifier(pool *pgxpool.Pool, logger *slog.Logger) *Notifier {
	return &Notifier{
		pool:    pool,
		logger:  logger,
		self:    uuid.NewString(),
		waiters: map[Topic]map[*Subscription]struct{}{},
		unsent:  map[Topic]map[string]struct{}{},
		kick:    make(chan struct{}, 1),
	}
}

// Subscription collects the workspaces that were announced.
type Subscription struct {
	// C receives when something was announced; take it with Take.
	C chan struct{}

	mu  sync.Mutex
	ids map[string]struct{}
	all bool
}

// Take returns what was announced since the last call. With all, anything may
// have happened (a connection was lost): sweep.
func (w *Subscription) Take() (ids []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.ids {
		ids = append(ids, id)
	}
	all = w.all
	w.ids, w.all = nil, false
	return ids, all
}

func (w *Subscription) add(ids []string, all bool) {
	w.mu.Lock()
	if w.ids == nil {
		w.ids = make(map[string]struct{}, len(ids))
	}
	for _, id := range ids {
		w.ids[id] = struct{}{}
	}
	w.all = w.all || all
	w.mu.Unlock()
	select {
	case w.C <- struct{}{}:
	default: // it is awake already
	}
}

// Subscribe registers a subscription; call the returned function to end it.
func (w *Notifier) Subscribe(topic Topic) (*Subscription, func()) {
	waiter := &Subscription{C: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters[topic] == nil {
		w.waiters[topic] = map[*Subscription]struct{}{}
	}
	w.waiters[topic][waiter] = struct{}{}
	return waiter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiters[topic], waiter)
	}
}

// Notify wakes the subscriptions of a topic: in this process at once, in others
// after the next NOTIFY.
func (w *Notifier) Notify(topic Topic, workspaceIDs ...string) {
	if len(workspaceIDs) == 0 {
		return
	}
	w.mu.Lock()
	for waiter := range w.waiters[topic] {
		waiter.add(workspaceIDs, false)
	}
	if w.unsent[topic] == nil {
		w.unsent[topic] = map[string]struct{}{}
	}
	for _, id := range workspaceIDs {
		w.unsent[topic][id] = struct{}{}
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *Notifier) local(topic Topic, ids []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for waiter := range w.waiters[topic] {
		waiter.add(ids, all)
	}
}

const (
	// notifyPause lets announcements gather between two NOTIFYs.
	notifyPause = 2 * time.Millisecond
	// maxPayload is below PostgreSQL's limit of 8,000 bytes.
	maxPayload = 7900
	// relisten is the pause before a lost connection is made anew.
	relisten = 500 * time.Millisecond
)

// Run sends and receives wake-ups of other processes until ctx ends.
func (w *Notifier) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { w.send(ctx) })
	group.Go(func() { w.listen(ctx) })
	group.Wait()
	return nil
}

// Flush sends what is not yet sent, for a program that is about to end.
func (w *Notifier) Flush(ctx context.Context) error {
	w.mu.Lock()
	unsent := w.unsent
	w.unsent = map[Topic]map[string]struct{}{}
	w.mu.Unlock()
	for topic, ids := range unsent {
		for _, payload := range payloads(w.self, ids) {
			if _, err := w.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, string(topic), payload); err != nil {
				return fmt.Errorf("notify %s: %w", topic, err)
			}
		}
	}
	return nil
}

func (w *Notifier) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		}
		if err := w.Flush(ctx); err != nil && ctx.Err() == nil {
			// Others find out by their sweeps.
			w.logger.WarnContext(ctx, "a wake-up could not be sent", "error", err)
		}
		if !flow.Pause(ctx, notifyPause) {
			return
		}
	}
}

// payloads packs workspace ids behind the sender's id.
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

// notifyInTx wakes others when the transaction commits.
func notifyInTx(ctx context.Context, tx pgx.Tx, topic Topic, workspaceID string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, string(topic), "- "+workspaceID); err != nil {
		return fmt.Errorf("notify %s: %w", topic, err)
	}
	return nil
}

func (w *Notifier) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		w.logger.WarnContext(ctx, "the connection for wake-ups was lost; sweeping meanwhile", "error", err)
		if !flow.Pause(ctx, relisten) {
			return
		}
	}
}

func (w *Notifier) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, w.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	for _, topic := range topics() {
		if _, err := conn.Exec(ctx, "LISTEN "+string(topic)); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	for _, topic := range topics() {
		w.local(topic, nil, true) // whatever was announced before we listened
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for a notification: %w", err)
		}
		sender, rest, _ := strings.Cut(n.Payload, " ")
		if sender != w.self {
			w.local(Topic(n.Channel), strings.Fields(rest), false)
		}
	}
}
