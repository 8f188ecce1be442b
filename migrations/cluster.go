package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/migrations/distribute"
)

// clusterOf looks for the Citus cluster of the database at url, and refuses its workers.
func clusterOf(ctx context.Context, url string) (cluster distribute.Cluster, err error) {
	err = connected(ctx, url, func(conn *pgx.Conn) error {
		cluster, err = distribute.Look(ctx, conn)
		switch {
		case err != nil || cluster.Version == "":
			return err
		case cluster.Worker:
			return &distribute.WorkerError{}
		}
		return distribute.CheckCoordinator(ctx, conn)
	})
	return cluster, err
}

func connected(ctx context.Context, url string, do func(*pgx.Conn) error) (err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}

// spread distributes the tables that are not yet where they belong, under the lock of
// migrations. Where nothing is to be done, the account needs no rights for it.
func spread(ctx context.Context, url string) error {
	return connected(ctx, url, func(conn *pgx.Conn) error {
		if err := distribute.Set(ctx, conn); err != nil {
			return err
		}
		if pending, err := distribute.Pending(ctx, conn); err != nil || len(pending) == 0 {
			return err
		}
		return pg.InTx(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
				return fmt.Errorf("take the lock of migrations: %w", err)
			}
			if err := pg.LimitLocks(ctx, tx, lockTimeout); err != nil {
				return err
			}
			_, err := distribute.Up(ctx, tx)
			return err
		})
	})
}

// Undistributed says what the database at url, on a Citus cluster, lacks: tables that are
// not where they belong, and statements that set what they need. It changes nothing.
// Errors: *distribute.WorkerError.
func Undistributed(ctx context.Context, url string) (cluster distribute.Cluster, tables []distribute.Table, unset []string, err error) {
	if cluster, err = clusterOf(ctx, url); err != nil || cluster.Version == "" {
		return cluster, nil, nil, err
	}
	err = connected(ctx, url, func(conn *pgx.Conn) error {
		if tables, err = distribute.Pending(ctx, conn); err == nil {
			unset, err = distribute.Unset(ctx, conn)
		}
		return err
	})
	return cluster, tables, unset, err
}
