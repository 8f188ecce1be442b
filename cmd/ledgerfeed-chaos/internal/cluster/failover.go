//go:build linux

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// replicaName is how the primary knows the replica.
const replicaName = "chaos_replica"

// Replica is a replica of the primary that streams from it over a link.
type Replica struct {
	cluster *Cluster
	server  *Server
	link    *badnetwork.Proxy
}

// NewReplica makes a replica of the primary and waits until it streams.
func (c *Cluster) NewReplica(ctx context.Context) (*Replica, error) {
	r := &Replica{cluster: c}
	if err := r.start(ctx); err != nil {
		r.Discard()
		return nil, err
	}
	return r, nil
}

func (r *Replica) start(ctx context.Context) (err error) {
	primary := r.cluster.Primary()
	if r.link, err = badnetwork.Listen(ctx, primary.Address()); err != nil {
		return err
	}
	if r.server, err = r.cluster.newServer(); err != nil {
		return err
	}
	if err := primary.copyTo(ctx, r.server, r.link.Address(), replicaName); err != nil {
		return err
	}
	if err := r.server.Start(ctx); err != nil {
		return err
	}
	r.cluster.mu.Lock()
	r.cluster.replica = r.server
	r.cluster.mu.Unlock()
	return r.awaitState(ctx, "state = 'streaming'")
}

// Synchronous makes commits on the primary wait for the replica, and returns when
// they do.
func (r *Replica) Synchronous(ctx context.Context) error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + replicaName + "'", "SELECT pg_reload_conf()"} {
		if err := r.cluster.Primary().Exec(ctx, sql); err != nil {
			return err
		}
	}
	return r.awaitState(ctx, "state = 'streaming' AND sync_state = 'sync'")
}

// Asynchronous ends Synchronous.
func (r *Replica) Asynchronous(ctx context.Context) error {
	for _, sql := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		if err := r.cluster.Primary().Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replica) awaitState(ctx context.Context, condition string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var there bool
		err := r.cluster.Primary().QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '"+replicaName+"' AND "+condition+")", &there)
		if err == nil && there {
			return nil
		}
		if !flow.Sleep(ctx, retryEvery) {
			return fmt.Errorf("the replica did not come to %s: %w", condition, err)
		}
	}
}

// Lag stops what the primary sends to the replica.
func (r *Replica) Lag() { r.link.Partition() }

// TakeOver kills the primary and makes the replica the primary of everybody.
func (r *Replica) TakeOver(ctx context.Context) error {
	c := r.cluster
	old := c.Primary()
	old.Kill()
	_ = r.link.Close()
	if err := r.server.Promote(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.primary, c.replica = r.server, nil
	c.mu.Unlock()
	c.point(r.server)
	return old.remove()
}

// discardTimeout bounds what Discard does to the primary.
const discardTimeout = 10 * time.Second

// Discard ends a replica that did not take over. Commits do not wait for it any more; a
// primary that cannot be told so now forgets it when it starts.
func (r *Replica) Discard() {
	ctx, cancel := context.WithTimeout(context.Background(), discardTimeout)
	defer cancel()
	_ = r.Asynchronous(ctx)
	r.cluster.mu.Lock()
	r.cluster.replica = nil
	r.cluster.mu.Unlock()
	if r.link != nil {
		_ = r.link.Close()
	}
	if r.server != nil {
		r.server.Kill()
		_ = r.server.remove()
	}
}

// point makes all ways to the database lead to a server.
func (c *Cluster) point(s *Server) {
	for _, p := range c.Databases() {
		p.Point(s.Address())
		p.Cut()
	}
}

// Backup is a physical copy of the primary, as of the moment when it was made.
type Backup struct {
	cluster *Cluster
	server  *Server
}

// NewBackup copies the primary.
func (c *Cluster) NewBackup(ctx context.Context) (*Backup, error) {
	s, err := c.newServer()
	if err != nil {
		return nil, err
	}
	if err := c.Primary().copyTo(ctx, s, "", "chaos_backup"); err != nil {
		return nil, err
	}
	return &Backup{c, s}, nil
}

// Restore kills the primary and makes the backup the primary of everybody.
func (b *Backup) Restore(ctx context.Context) error {
	c := b.cluster
	old := c.Primary()
	old.Kill()
	if err := b.server.Start(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.primary = b.server
	c.mu.Unlock()
	c.point(b.server)
	return old.remove()
}

// Discard deletes a backup that was not restored.
func (b *Backup) Discard() { _ = b.server.remove() }

// connectTimeout bounds a connection that the harness makes for itself.
const connectTimeout = 10 * time.Second

// Exec runs a statement on the server, past every proxy.
func (s *Server) Exec(ctx context.Context, sql string, args ...any) error {
	return s.With(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("run a statement: %w", err)
		}
		return nil
	})
}

// QueryRow reads one value from the server, past every proxy.
func (s *Server) QueryRow(ctx context.Context, sql string, into any, args ...any) error {
	return s.With(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(into) })
}

// With does work on a connection of its own to the server, past every proxy.
func (s *Server) With(ctx context.Context, work func(*pgx.Conn) error) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(connecting, s.URL())
	if err != nil {
		return fmt.Errorf("connect past the proxies: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(conn)
}
