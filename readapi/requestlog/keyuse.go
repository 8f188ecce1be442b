package requestlog

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// keyUses holds, for each key, the minute of the last use that was written, so that each key is
// written at most once a minute. Only Run's goroutine uses it.
type keyUses map[usedKey]int64

type usedKey struct{ workspaceID, keyID string }

// maxKeyUses bounds keyUses. Above it, the whole map is cleared, which costs each key one extra
// write.
const maxKeyUses = 100_000

// write stores when the keys of accepted requests were last used.
func (u keyUses) write(ctx context.Context, pool pg.DB, batch []Record) error {
	latest := map[usedKey]time.Time{}
	for i := range batch {
		r := &batch[i]
		key := usedKey{r.WorkspaceID, r.KeyID}
		if r.Refusal != "" || r.WorkspaceID == "" || u[key] >= minuteOf(r.At) {
			continue
		}
		if r.At.After(latest[key]) {
			latest[key] = r.At
		}
	}
	if len(latest) == 0 {
		return nil
	}
	var (
		workspaces, keys []string
		times            []time.Time
	)
	for key, at := range latest {
		workspaces, keys, times = append(workspaces, key.workspaceID), append(keys, key.keyID), append(times, at)
	}
	// Every instance locks the rows in the order of their key, so that no two
	// deadlock.
	const write = `
		WITH used AS MATERIALIZED (
			SELECT k.workspace_id, k.key_id, t.at
			  FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS t (w, k, at)
			  JOIN api_key k ON k.workspace_id = t.w AND k.key_id = t.k
			 ORDER BY k.workspace_id, k.key_id)
		INSERT INTO api_key_use AS u (workspace_id, key_id, last_used_at)
		SELECT * FROM used
		ON CONFLICT (workspace_id, key_id) DO UPDATE SET last_used_at = excluded.last_used_at
		 WHERE date_trunc('minute', u.last_used_at AT TIME ZONE 'UTC') < date_trunc('minute', excluded.last_used_at AT TIME ZONE 'UTC')`
	if _, err := pool.Exec(ctx, write, workspaces, keys, times); err != nil {
		return fmt.Errorf("write when keys were used: %w", err)
	}
	if len(u) > maxKeyUses {
		clear(u)
	}
	for key, at := range latest {
		u[key] = minuteOf(at)
	}
	return nil
}
