//go:build linux

package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// table is the outbox, as watermill-sql makes it.
const table = "watermill_ledgerfeed"

func (r *Region) with(ctx context.Context, database string, work func(*pgx.Conn) error) error {
	connecting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(connecting, r.Server.URLOf(database))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", database, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(conn)
}

func (r *Region) makeOutbox(ctx context.Context) error {
	return r.with(ctx, shop, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			CREATE TABLE `+table+` ("offset" bigserial, uuid varchar(36) NOT NULL, created_at timestamp NOT NULL DEFAULT current_timestamp,
			       payload json, metadata json, transaction_id xid8 NOT NULL, PRIMARY KEY (transaction_id, "offset"))`)
		if err != nil {
			return fmt.Errorf("make the outbox: %w", err)
		}
		return nil
	})
}

// workspaces are the workspaces of the producer.
func workspaces() []string { return []string{"ra", "rb", "rc"} }

// malformedEvery is how often a message is no entry; it becomes a dead letter.
const malformedEvery = 40

// produce writes to the outbox until ctx ends. A transaction whose outcome is unknown is
// written again, so messages can be there twice.
func (r *Region) produce(ctx context.Context) {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 0x5e9104))
	for serial := 0; flow.Sleep(ctx, r.cfg.Pace/2+time.Duration(rng.Int64N(int64(r.cfg.Pace)))); {
		var payloads []string
		for range 1 + rng.IntN(5) {
			serial++
			w := workspaces()[rng.IntN(len(workspaces()))]
			switch {
			case serial%malformedEvery == 0:
				payloads = append(payloads, fmt.Sprintf(`{"workspace_id":%q,"id":"m%d","type":"no.such"}`, w, serial))
			case serial%3 == 0:
				payloads = append(payloads, fmt.Sprintf(`{"workspace_id":%q,"id":"e%d","type":"invoice.issued","data":{"invoice_id":"in_%[2]d","invoice_number":"%[2]d","amount":"420.00"}}`, w, serial))
			default:
				payloads = append(payloads, fmt.Sprintf(`{"workspace_id":%q,"id":"e%d","type":"client.recorded","data":{"client_id":"c%d","name":"Client %[2]d"}}`, w, serial, serial%20))
			}
		}
		for again := true; again; {
			again = r.write(ctx, payloads) != nil && flow.Sleep(ctx, 100*time.Millisecond)
		}
	}
}

func (r *Region) write(ctx context.Context, payloads []string) error {
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return r.with(lasting, shop, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(lasting, conn, func(tx pgx.Tx) error {
			for _, payload := range payloads {
				_, err := tx.Exec(lasting, `INSERT INTO `+table+` (uuid, payload, metadata, transaction_id) VALUES ($1, $2, '{}', pg_current_xact_id())`, uuid.NewString(), payload)
				if err != nil {
					return fmt.Errorf("write to the outbox: %w", err)
				}
			}
			return nil
		})
	})
}

// offered is what the outbox holds: the ids of each workspace's entries, the first time that
// each is there, in their order, and how many messages are no entries.
func (r *Region) offered(ctx context.Context) (ids map[string][]string, malformed int, err error) {
	ids = map[string][]string{}
	err = r.with(ctx, shop, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT payload->>'workspace_id', payload->>'id', payload->>'type' = 'no.such' FROM `+table+` ORDER BY transaction_id, "offset"`)
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		var (
			workspace, id string
			wrong         bool
			there         = map[string]bool{}
		)
		_, err = pgx.ForEachRow(rows, []any{&workspace, &id, &wrong}, func() error {
			switch {
			case wrong:
				malformed++
			case !there[workspace+" "+id]:
				there[workspace+" "+id] = true
				ids[workspace] = append(ids[workspace], id)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		return nil
	})
	return ids, malformed, err
}

// count is what a statement returns of a database.
func (r *Region) count(ctx context.Context, database, sql string) (n int, err error) {
	err = r.with(ctx, database, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
			return fmt.Errorf("count in %s: %w", database, err)
		}
		return nil
	})
	return n, err
}

// arrived tells whether the second log has as much as the outbox.
func (r *Region) arrived(ctx context.Context) (bool, error) {
	ids, malformed, err := r.offered(ctx)
	if err != nil {
		return false, err
	}
	want := 0
	for _, list := range ids {
		want += len(list)
	}
	got, err := r.count(ctx, away, `SELECT coalesce(sum(position), 0) FROM log_head`)
	if err != nil || got < want {
		return false, err
	}
	dead, err := r.count(ctx, shop, `SELECT count(*) FROM `+table+`_dead`)
	return dead >= malformed, err
}
