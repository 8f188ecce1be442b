package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Hosts are the servers that a URL names, each as host:port, in its order.
func Hosts(url string) ([]string, error) {
	cfg, err := ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return hostsOf(cfg.ConnConfig), nil
}

func hostsOf(cfg *pgx.ConnConfig) (hosts []string) {
	for _, one := range addressesOf(cfg) {
		if name := hostName(one); !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// addressesOf is what a connection is tried at, in order: each host once or, where it may be
// with TLS and without, twice.
func addressesOf(cfg *pgx.ConnConfig) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
}

func hostName(a *pgconn.FallbackConfig) string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// At leaves one of the hosts in a configuration, as Hosts names it. Any node of a cluster is
// right.
func At(cfg *pgx.ConnConfig, host string) error {
	left := slices.DeleteFunc(addressesOf(cfg), func(a *pgconn.FallbackConfig) bool { return hostName(a) != host })
	if len(left) == 0 {
		return fmt.Errorf("DATABASE_URL does not name the host %s", host)
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = left[0].Host, left[0].Port, left[0].TLSConfig, left[1:]
	cfg.ValidateConnect = nil
	return nil
}

// errWorker says why a host is passed over.
var errWorker = errors.New("it is a worker of the Citus cluster: want its coordinator, too, in DATABASE_URL")

// passOverWorkers makes connections to a URL with several hosts go on to the next one where
// a host is a worker of a Citus cluster: some tables are on the coordinator alone, and only
// there the schema can be changed.
func passOverWorkers(cfg *pgx.ConnConfig) {
	if len(hostsOf(cfg)) < 2 {
		return
	}
	validate := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, conn); err != nil {
				return err
			}
		}
		cluster, err := single(ctx, conn, `SELECT to_regclass('pg_catalog.pg_dist_local_group') IS NOT NULL`)
		if err != nil || cluster != "t" {
			return err
		}
		group, err := single(ctx, conn, `SELECT groupid FROM pg_catalog.pg_dist_local_group`)
		if err == nil && group != "0" {
			err = errWorker
		}
		return err
	}
}

// single is the one value that a statement returns, as text.
func single(ctx context.Context, conn *pgconn.PgConn, sql string) (string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", fmt.Errorf("ask whether the server is the coordinator of a cluster: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return "", nil
	}
	return string(results[0].Rows[0][0]), nil
}
