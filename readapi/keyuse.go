package readapi

import (
	"context"
	"fmt"
	"time"
)

// keyUses remembers when each key's last use was written, so that it is written
// once a minute at most. Only Run's goroutine touches it.
type keyUses map[usedKey]int64

type usedKey struct{ workspaceID, keyID string }

// minuteOf numbers clock minutes.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// writeKeyUses keeps when the keys of accepted requests were used.
func (s *RequestStore) writeKeyUses(ctx context.Context, batch []RequestRecord) error {
	latest := map[usedKey]time.Time{}
	for i := range batch {
		r := &batch[i]
		key := usedKey{r.WorkspaceID, r.KeyID}
		if r.Refusal != "" || r.WorkspaceID == "" || s.uses[key] >= minuteOf(r.At) {
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
	// In order of the key, so that two instances never wait for each other.
	const write = `
		INSERT INTO api_key_use AS u (workspace_id, key_id, last_used_at)
		SELECT k.workspace_id, k.key_id, t.at
		  FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS t (w, k, at)
		  JOIN api_key k ON k.workspace_id = t.w AND k.key_id = t.k
		 ORDER BY k.workspace_id, k.key_id
		ON CONFLICT (workspace_id, key_id) DO UPDATE SET last_used_at = excluded.last_used_at
		 WHERE date_trunc('minute', u.last_used_at) < date_trunc('minute', excluded.last_used_at)`
	if _, err := s.cfg.Pool.Exec(ctx, write, workspaces, keys, times); err != nil {
		return fmt.Errorf("write when keys were used: %w", err)
	}
	if len(s.uses) > maxRememberedUses {
		clear(s.uses)
	}
	for key, at := range latest {
		s.uses[key] = minuteOf(at)
	}
	return nil
}

// maxRememberedUses bounds keyUses; what is forgotten is written once more.
const maxRememberedUses = 100_000
