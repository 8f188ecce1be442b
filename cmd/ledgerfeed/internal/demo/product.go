package demo

import (
	"context"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// product is the billing product of the demo. It keeps its work in a table of its own, and
// publishes each entry in the transaction that changes the table, as yours would.
type product struct {
	pool  pg.DB
	clock func() time.Time
}

// newProduct creates the product's table, which is none of Ledgerfeed's, at the first start.
func newProduct(ctx context.Context, pool pg.DB, clock func() time.Time) (*product, error) {
	_, err := pool.Exec(ctx, `
		CREATE SCHEMA IF NOT EXISTS demo_product;
		CREATE TABLE IF NOT EXISTS demo_product.work (id text PRIMARY KEY, kind text NOT NULL, data json NOT NULL)`)
	if err != nil {
		return nil, fmt.Errorf("make the table of the demo's billing product: %w", err)
	}
	return &product{pool, clock}, nil
}

// save saves a piece of work and publishes its entry: both are there, or neither is.
func (p *product) save(ctx context.Context, id, kind string, data []byte) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO demo_product.work (id, kind, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, kind, data)
		if err != nil {
			return fmt.Errorf("save: %w", err)
		}
		if tag.RowsAffected() == 0 { // the connection was lost after an earlier commit, and this is another attempt
			return nil
		}
		publisher, err := watermillsql.NewPublisher(wsql.TxFromPgx(tx), p.clock, nil)
		if err != nil {
			return err
		}
		msg := message.NewMessage(id, data)
		msg.Metadata.Set(watermillsql.MetadataType, kind)
		return publisher.Publish(workspaceID, msg)
	})
}
