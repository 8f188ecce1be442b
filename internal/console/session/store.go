package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// Config is what a Store needs.
type Config struct {
	Pool   *pgxpool.Pool    // required
	Clock  func() time.Time // nil: time.Now
	Random io.Reader        // source of tokens; nil: crypto/rand.Reader

	// Idle is how long a session lasts without a request. Default 2 h.
	Idle time.Duration
	// Absolute is how long a session lasts in any case. Default 12 h.
	Absolute time.Duration
}

// Store keeps sign-in links and sessions in the database. It is safe for
// concurrent use.
type Store struct {
	cfg Config
}

// NewStore makes a Store. The error names what cfg lacks.
func NewStore(cfg Config) (*Store, error) {
	if cfg.Pool == nil {
		return nil, errors.New("session: Config needs a Pool")
	}
	if cfg.Idle < 0 || cfg.Absolute < 0 {
		return nil, errors.New("session: Config.Idle and Absolute must not be below 0")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Idle == 0 {
		cfg.Idle = 2 * time.Hour
	}
	if cfg.Absolute == 0 {
		cfg.Absolute = 12 * time.Hour
	}
	return &Store{cfg: cfg}, nil
}

// now is the time of a call, in the precision of the database.
func (s *Store) now() time.Time { return s.cfg.Clock().UTC().Truncate(time.Microsecond) }

// Token makes a random token.
func (s *Store) Token() (string, error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(s.cfg.Random, b[:]); err != nil {
		return "", fmt.Errorf("cannot make a token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// hashOf is what the database keeps of a token.
func hashOf(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

func isForeignKey(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23503"
}

// Workspaces returns the names of those workspaces that exist, by id; with nil
// ids, of all.
func (s *Store) Workspaces(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := s.cfg.Pool.Query(ctx, `SELECT workspace_id, name FROM workspace WHERE $1::text[] IS NULL OR workspace_id = ANY ($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("cannot read workspaces: %w", err)
	}
	names := map[string]string{}
	var id, name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read workspaces: %w", err)
	}
	return names, nil
}

// removedAtOnce is how many expired rows are removed at a time; what is left goes next time.
const removedAtOnce = 500

// removeExpired removes expired rows of any workspace, but none that somebody has locked. They
// are looked up first and removed one by one, because a cluster can lock rows of one workspace only.
func removeExpired(ctx context.Context, s *Store, table string, now time.Time) error {
	type name struct {
		WorkspaceID string
		Hash        []byte
	}
	rows, err := s.cfg.Pool.Query(ctx, `SELECT workspace_id, hash FROM `+table+` WHERE expires_at <= $1 LIMIT $2`, now, removedAtOnce)
	if err != nil {
		return fmt.Errorf("look for what has expired: %w", err)
	}
	expired, err := pgx.CollectRows(rows, pgx.RowToStructByPos[name])
	if err != nil {
		return fmt.Errorf("look for what has expired: %w", err)
	}
	if len(expired) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, e := range expired {
		b.Queue(`
			DELETE FROM `+table+` WHERE workspace_id = $1 AND hash IN (
			       SELECT hash FROM `+table+` WHERE workspace_id = $1 AND hash = $2 AND expires_at <= $3 FOR UPDATE SKIP LOCKED)`,
			e.WorkspaceID, e.Hash, now)
	}
	if err := s.cfg.Pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("remove what has expired: %w", err)
	}
	return nil
}
