//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// producer is one way in which entries get into the log.
type producer struct {
	name   string
	outbox bool // it writes a row of its own in the same transaction
	most   int  // entries at once
	spaces int  // workspaces at once
	try    func(context.Context, []domain.Draft) ([]eventlog.Receipt, error)
}

// producers are all of them, with what they share.
type producers struct {
	*env

	pool      *pg.Pool
	log       *eventlog.Log
	clocked   *eventlog.Log // with a clock that can be wrong
	sources   map[string]*source
	file      string // that the append command is given
	pace      time.Duration
	mu        sync.Mutex
	appending *exec.Cmd // the append command that runs; guarded by mu
}

func (w *producers) kinds() []producer {
	return []producer{
		{"single", false, 1, 1, func(ctx context.Context, d []domain.Draft) ([]eventlog.Receipt, error) {
			return w.log.Append(ctx, d...)
		}},
		{"single 2", false, 1, 1, func(ctx context.Context, d []domain.Draft) ([]eventlog.Receipt, error) {
			return w.log.Append(ctx, d...)
		}},
		{"clock", false, 1, 1, func(ctx context.Context, d []domain.Draft) ([]eventlog.Receipt, error) {
			return w.clocked.Append(ctx, d...)
		}},
		{"batch", false, 12, 3, func(ctx context.Context, d []domain.Draft) ([]eventlog.Receipt, error) {
			return w.log.Append(ctx, d...)
		}},
		{"own transaction", true, 3, 1, w.inTransaction},
		{"Watermill", true, 2, 1, w.byWatermill},
		{"command", false, 20, 2, w.byCommand},
	}
}

// tryTimeout bounds one try to append.
const tryTimeout = 40 * time.Second

// produce appends until ctx ends, and what it has begun to its end.
func (w *producers) produce(ctx context.Context, p producer, rng *rand.Rand) {
	for flow.Sleep(ctx, w.pace/2+time.Duration(rng.Int64N(int64(w.pace)))) {
		drafts, err := w.drafts(p, rng)
		if err != nil {
			w.findings.Add(check.RuleAppended, "%v", err)
			return
		}
		w.deliver(context.WithoutCancel(ctx), p, drafts, rng)
	}
}

func (w *producers) drafts(p producer, rng *rand.Rand) (drafts []domain.Draft, err error) {
	for range 1 + rng.IntN(p.spaces) {
		some, err := w.sources[w.workspaces[rng.IntN(len(w.workspaces))]].next(1 + rng.IntN(p.most))
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, some...)
	}
	return drafts, nil
}

// deliver tries until the entries are acknowledged: ids make that safe.
func (w *producers) deliver(ctx context.Context, p producer, drafts []domain.Draft, rng *rand.Rand) {
	offers := w.history.Offer(p.name, time.Now(), p.outbox, drafts)
	for {
		err := w.gate.pass(ctx, tryTimeout, func(ctx context.Context) error {
			for _, o := range offers {
				o.Tries++
			}
			receipts, err := p.try(ctx, drafts)
			if err != nil {
				return err
			}
			now := time.Now()
			for i, o := range offers {
				var position int64
				if receipts != nil {
					position = receipts[i].Position
				}
				w.history.Acknowledge(o, now, position)
			}
			return nil
		})
		if err == nil {
			return
		}
		if errors.Is(err, errAbandoned) {
			return
		}
		if errors.Is(err, eventlog.ErrOtherContent) || errors.Is(err, eventlog.ErrBeforeNewest) {
			w.findings.Add(check.RuleAppended, "%s: an entry was refused that nothing is wrong with: %v", p.name, err)
			for _, o := range offers {
				o.Refused = err.Error()
			}
			return
		}
		flow.Sleep(ctx, 50*time.Millisecond+time.Duration(rng.Int64N(int64(300*time.Millisecond))))
	}
}

// errAbandoned is the end of a transaction that its producer rolled back after the
// append, as one does whose own work failed. Every eighth does, by its id.
var errAbandoned = errors.New("the producer has changed its mind")

const abandoned = 8

// inTransaction appends in a transaction of the producer's own.
func (w *producers) inTransaction(ctx context.Context, drafts []domain.Draft) (receipts []eventlog.Receipt, err error) {
	err = pg.InTx(ctx, w.pool, func(tx pgx.Tx) error {
		if err := writeOutbox(ctx, tx, drafts); err != nil {
			return err
		}
		if receipts, err = w.log.AppendTx(ctx, tx, drafts...); err != nil {
			return err
		}
		if crc32.ChecksumIEEE([]byte(drafts[0].ID))%abandoned == 0 {
			return errAbandoned
		}
		return nil
	})
	return receipts, err
}

// byWatermill publishes in a transaction of the producer's own.
func (w *producers) byWatermill(ctx context.Context, drafts []domain.Draft) ([]eventlog.Receipt, error) {
	return nil, pg.InTx(ctx, w.pool, func(tx pgx.Tx) error {
		if err := writeOutbox(ctx, tx, drafts); err != nil {
			return err
		}
		publisher, err := watermillsql.NewPublisher(wsql.TxFromPgx(tx), time.Now, nil)
		if err != nil {
			return err
		}
		var messages []*message.Message
		for i := range drafts {
			m := message.NewMessage(drafts[i].ID, message.Payload(drafts[i].Data))
			m.Metadata.Set(watermillsql.MetadataType, drafts[i].Type)
			m.SetContext(ctx)
			messages = append(messages, m)
		}
		return publisher.Publish(drafts[0].WorkspaceID, messages...)
	})
}

func writeOutbox(ctx context.Context, tx pgx.Tx, drafts []domain.Draft) error {
	for i := range drafts {
		_, err := tx.Exec(ctx, `INSERT INTO chaos_outbox (workspace_id, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, drafts[i].WorkspaceID, drafts[i].ID)
		if err != nil {
			return fmt.Errorf("write the producer's own row: %w", err)
		}
	}
	return nil
}

// byCommand appends a file with the program's own command.
func (w *producers) byCommand(ctx context.Context, drafts []domain.Draft) ([]eventlog.Receipt, error) {
	var text []byte
	for i := range drafts {
		d := &drafts[i]
		text = fmt.Appendf(text, "{\"workspace_id\":%q,\"id\":%q,\"type\":%q,\"data\":%s}\n", d.WorkspaceID, d.ID, d.Type, d.Data)
	}
	if err := os.WriteFile(w.file, text, 0o600); err != nil {
		return nil, err
	}
	cmd := w.cluster.ProducersCommand(ctx, "append", "--json", w.file)
	w.mu.Lock()
	err := cmd.Start()
	w.appending = cmd
	w.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("start append: %w", err)
	}
	err = cmd.Wait()
	w.mu.Lock()
	w.appending = nil
	w.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	return nil, nil
}

// killAppend kills the append command that runs; false: none does.
func (w *producers) killAppend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.appending != nil && w.appending.Process != nil && w.appending.Process.Kill() == nil
}
