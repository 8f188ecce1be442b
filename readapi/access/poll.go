package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/periodic"
)

const (
	// pollTimeout leaves time for another poll before trustFor ends.
	pollTimeout = 300 * time.Millisecond
	// maxForgotten is how many secrets one poll removes from the cache one by one.
	// After more changes, as by a script that revokes a million keys, the whole
	// cache is dropped.
	maxForgotten = 10_000
)

var errPollTimeout = errors.New("the poll for changed API keys took too long")

// poller is what Run's goroutine remembers between polls.
type poller struct {
	conn *pgxpool.Conn // nil: to be acquired
	seen int64         // revision up to which changes are known; -1: none yet
}

// Run keeps the cache up to date until ctx is done, and then returns nil. It holds one
// connection of the pool, so that requests that wait for connections cannot delay it,
// and releases it when it returns. The error is for a second Run beside the first.
func (d *Directory) Run(ctx context.Context) error {
	if !d.running.CompareAndSwap(false, true) {
		return errors.New("access directory: Run is running already")
	}
	defer d.running.Store(false)
	p := &poller{seen: -1}
	defer p.release()
	periodic.Run(ctx, d.cfg.PollEvery, &periodic.Outage{
		Logger:  d.cfg.Log,
		Failing: "changes of API keys are not seen; every request asks the database until they are",
		Working: "changes of API keys are seen again",
	}, func(ctx context.Context) error { return d.poll(ctx, p) }, d.cfg.OnPoll)
	return nil
}

// poll reads which keys changed and removes them from the cache, unless nobody has asked
// for a key since the last poll: a process without requests is to cost little.
func (d *Directory) poll(ctx context.Context, p *poller) (err error) {
	if !d.asked.Swap(false) && p.seen >= 0 && !d.leftOut.Load() {
		d.leftOut.Store(true)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.pollTimeout, errPollTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			p.release() // the next poll tries another connection
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
		}
	}()
	began := d.cfg.Clock()
	if p.conn == nil {
		if p.conn, err = d.cfg.Pool.Acquire(ctx); err != nil {
			return fmt.Errorf("get a connection to poll for changed keys: %w", err)
		}
	}
	const current = `SELECT revision FROM access_revision WHERE workspace_id = '*'`
	var revision int64
	if err := p.conn.QueryRow(ctx, current).Scan(&revision); err != nil {
		return fmt.Errorf("read the access revision: %w", err)
	}
	// A lower revision than before means that a failover or a restore brought the
	// database back to an earlier state.
	all := p.seen < 0 || revision < p.seen
	var changed []hash
	if !all && revision > p.seen {
		if changed, err = readChanged(ctx, p.conn, p.seen); err != nil {
			return err
		}
		all = len(changed) > maxForgotten
	}
	d.cache.confirm(began, changed, all)
	d.leftOut.Store(false)
	// Not the highest revision that readChanged saw: changes above revision are read
	// again by the next poll, which does no harm.
	p.seen = revision
	return nil
}

// readChanged returns the secrets of the keys that changed after a revision, at most
// one more than maxForgotten.
func readChanged(ctx context.Context, conn *pgxpool.Conn, after int64) ([]hash, error) {
	const changed = `SELECT s.hash FROM api_key k
		JOIN api_key_secret s ON s.workspace_id = k.workspace_id AND s.key_id = k.key_id
		WHERE k.revision > $1 LIMIT $2`
	rows, err := conn.Query(ctx, changed, after, maxForgotten+1)
	if err != nil {
		return nil, fmt.Errorf("read changed keys: %w", err)
	}
	hashes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (hash, error) {
		var stored []byte
		if err := row.Scan(&stored); err != nil {
			return hash{}, fmt.Errorf("scan a hash: %w", err)
		}
		return hash(stored), nil // 32 bytes by a constraint of the table
	})
	if err != nil {
		return nil, fmt.Errorf("read changed keys: %w", err)
	}
	return hashes, nil
}

func (p *poller) release() {
	if p.conn != nil {
		p.conn.Release()
		p.conn = nil
	}
}
