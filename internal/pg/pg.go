// Package pg holds what every user of the database does alike: pools and
// transactions.
package pg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of a pool.
type Options struct {
	// MaxConns is the most connections; 0 leaves pgx's default.
	MaxConns int32

	// ReadBuffer is the size of each connection's read buffer in bytes; 0
	// leaves the default. Pages of rows want 32 KiB.
	ReadBuffer int

	// Settings are run-time parameters of every connection.
	Settings map[string]string
}

// Open makes a pool and checks that the database answers.
func Open(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	if o.ReadBuffer > 0 {
		cfg.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(bufio.NewReaderSize(r, o.ReadBuffer), w)
		}
	}
	for name, value := range o.Settings {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "ledgerfeed"
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the database does not answer: %w", err)
	}
	return pool, nil
}

// rollbackPatience bounds a rollback whose caller's context is already over.
const rollbackPatience = 5 * time.Second

// Beginner starts transactions: a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// InTx runs do in a transaction and commits it, or rolls it back when do
// fails or panics.
func InTx(ctx context.Context, b Beginner, do func(pgx.Tx) error) error {
	return InTxWith(ctx, b, pgx.TxOptions{}, do)
}

// InTxWith is InTx with options.
func InTxWith(ctx context.Context, b Beginner, o pgx.TxOptions, do func(pgx.Tx) error) error {
	tx, err := b.BeginTx(ctx, o)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if !committed {
			Rollback(ctx, tx)
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return nil
}

// Rollback ends a transaction that must not stay open, also when the context
// of the work is over. A failing rollback leaves a broken connection, which
// the pool throws away; there is nothing else to do about it.
func Rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackPatience)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		_ = tx.Conn().Close(ctx)
	}
}
