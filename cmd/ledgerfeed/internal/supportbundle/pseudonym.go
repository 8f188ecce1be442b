package supportbundle

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pseudonyms make up names for workspaces and webhooks, which are the same in every
// bundle of a database. The key is in the database, so that nobody else can try ids.
type pseudonyms []byte

// readPseudonyms takes the key from one that the service keeps for itself; before the
// service has made it, names are those of one bundle.
func readPseudonyms(ctx context.Context, pool *pgxpool.Pool) (pseudonyms, error) {
	var key []byte
	err := pool.QueryRow(ctx, `SELECT value FROM service_key WHERE workspace_id = '*' ORDER BY name LIMIT 1`).Scan(&key)
	if err != nil {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // it never fails
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("names in support bundles"))
	return mac.Sum(nil), err
}

// of is the made-up name of what an id names.
func (p pseudonyms) of(kind, id string) string {
	mac := hmac.New(sha256.New, p)
	mac.Write([]byte(kind + "\x00" + id))
	return kind + "-" + hex.EncodeToString(mac.Sum(nil)[:5])
}
