package eventtree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"
)

// ReadTile reads the hashes of a tile, each of 32 bytes; nil: the tree does not have it, or
// not so many hashes of it. The position is that of the log that the tree is of.
func ReadTile(ctx context.Context, db Querier, workspaceID string, s Sight, p Path) (hashes []byte, position int64, err error) {
	var size *int64
	err = db.QueryRow(ctx, `
		SELECT t.position, t.size, k.hashes FROM event_tree t
		  LEFT JOIN event_tile k ON k.workspace_id = t.workspace_id AND k.sight = t.sight AND k.level = $3 AND k.tile = $4
		 WHERE t.workspace_id = $1 AND t.sight = $2`, workspaceID, s, min(p.Level, levels), p.Index).Scan(&position, &size, &hashes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read a tile of the tree %s of %s: %w", s, workspaceID, err)
	}
	if p.Level >= levels || size == nil || !hasTile(*size, p.Level, p.Index, p.Width) {
		return nil, position, nil
	}
	if len(hashes) < p.Width*tlog.HashSize {
		return nil, position, fmt.Errorf("tile %d at level %d of the tree %s of %s has %d bytes, less than %d hashes", p.Index, p.Level, s, workspaceID, len(hashes), p.Width)
	}
	return hashes[:p.Width*tlog.HashSize], position, nil
}

// errEntryTooLong says that an event is longer than a bundle can have.
var errEntryTooLong = fmt.Errorf("an event has more than %d bytes, the most of an entry in a bundle", math.MaxUint16)

// ReadBundle reads the leaves of a tile of level 0 from the log, each after its length in two
// bytes; nil: the tree does not have so many leaves, or the first of them was published
// before oldest. The position is that of the log that the tree is of.
func ReadBundle(ctx context.Context, db Querier, workspaceID string, s Sight, p Path, oldest time.Time) (bundle []byte, position int64, err error) {
	rows, err := db.Query(ctx, `
		WITH tree AS MATERIALIZED (
			SELECT t.position, t.size, coalesce((SELECT k.through FROM event_tile k
			         WHERE k.workspace_id = $1 AND k.sight = $2 AND k.level = 0 AND k.tile = $3::bigint - 1), 0) AS after
			  FROM event_tree t WHERE t.workspace_id = $1 AND t.sight = $2 AND t.size >= $3 * 256 + $4::bigint
		)
		(SELECT position, '' AS event, NULL::timestamptz AS created_at FROM event_tree WHERE workspace_id = $1 AND sight = $2)
		UNION ALL
		(SELECT position, event, created_at FROM (
			SELECT position, public_event AS event, created_at FROM event_log
			 WHERE workspace_id = $1 AND position > (SELECT after FROM tree) AND position <= (SELECT position FROM tree)
			   AND public_event IS NOT NULL`+s.condition()+`
			 ORDER BY position LIMIT 256) e LIMIT $4)`, workspaceID, s, p.Index, p.Width)
	if err != nil {
		return nil, 0, fmt.Errorf("read a bundle of the tree %s of %s: %w", s, workspaceID, err)
	}
	var (
		at    int64
		event string
		made  *time.Time
		n     int
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &event, &made}, func() error {
		switch {
		case made == nil:
			position = at
			return nil
		case made.Before(oldest):
			n = -TileWidth // the others do not matter
			return nil
		case len(event) > math.MaxUint16:
			return errEntryTooLong
		}
		n++
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(event))), event...)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read a bundle of the tree %s of %s: %w", s, workspaceID, err)
	}
	if n != p.Width {
		return nil, position, nil
	}
	return bundle, position, nil
}

// mostUncounted is how many events after the end of a tree are counted to find the index of
// one of them.
const mostUncounted = 2000

// IndexOf is the index that the event at a position has in a tree, also if the tree is not
// built up to there yet. False: it is too far behind to tell.
func IndexOf(ctx context.Context, db Querier, workspaceID string, s Sight, position int64) (index int64, ok bool, err error) {
	var counted int64
	err = db.QueryRow(ctx, `
		WITH before AS MATERIALIZED (
			SELECT tile * 256 + octet_length(hashes) / 32 AS leaves, through FROM event_tile
			 WHERE workspace_id = $1 AND sight = $2 AND level = 0 AND through < $3 ORDER BY through DESC LIMIT 1
		)
		SELECT coalesce((SELECT leaves FROM before), 0),
		       (SELECT count(*) FROM (
		          SELECT FROM event_log
		           WHERE workspace_id = $1 AND position > coalesce((SELECT through FROM before), 0) AND position < $3
		             AND public_event IS NOT NULL`+s.condition()+`
		           ORDER BY position LIMIT $4) e)`, workspaceID, s, position, mostUncounted).Scan(&index, &counted)
	if err != nil {
		return 0, false, fmt.Errorf("find the index of an event of %s: %w", workspaceID, err)
	}
	return index + counted, counted < mostUncounted, nil
}
