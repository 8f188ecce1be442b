package eventlog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Trial finds out what an append would do, without appending. It locks nothing, so a concurrent
// append may change the answer. It is not safe for concurrent use.
type Trial struct {
	log        *Log
	create     bool
	workspaces map[string]*tried
}

// tried is a workspace as the entries tried so far would leave it.
type tried struct {
	refuses error // why it refuses every entry; nil: it does not
	last    time.Time
	seen    map[[16]byte][16]byte // digests of content, by the digest of the id
}

// Verdict is what an append would do with an entry.
type Verdict struct {
	Refused error // nil: it is not refused
	Skipped bool  // the workspace already has it
}

// UnknownWorkspace returns the error of an entry whose workspace does not exist.
func UnknownWorkspace(workspaceID string) error {
	return fmt.Errorf("there is no workspace %q", workspaceID)
}

// NewTrial begins a trial. With create, an entry may create its workspace.
func (l *Log) NewTrial(create bool) *Trial {
	return &Trial{log: l, create: create, workspaces: map[string]*tried{}}
}

// Append tries entries, as if the entries of earlier calls had been appended.
func (t *Trial) Append(ctx context.Context, drafts ...domain.Draft) ([]Verdict, error) {
	now, err := t.log.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.meet(ctx, drafts); err != nil {
		return nil, fmt.Errorf("look at the workspaces: %w", err)
	}
	held, err := t.held(ctx, drafts)
	if err != nil {
		return nil, fmt.Errorf("look for entries: %w", err)
	}
	verdicts := make([]Verdict, len(drafts))
	for i := range drafts {
		same, there := held[i]
		verdicts[i] = t.workspaces[drafts[i].WorkspaceID].judge(&drafts[i], now, there, same)
	}
	return verdicts, nil
}

// judge decides as log_append does. there says that the log has an entry with this id, and same
// that its content is the same.
func (w *tried) judge(d *domain.Draft, now time.Time, there, same bool) Verdict {
	if w.refuses != nil {
		return Verdict{Refused: w.refuses}
	}
	refused := func(outcome string, when time.Time) Verdict {
		return Verdict{Refused: outcomeError(outcome, 0, d.ID, domain.FormatTime(when))}
	}
	key, content := digest(d.ID), digest(d.Type+"\x00"+d.Data)
	if before, seen := w.seen[key]; seen && d.ID != "" && !there {
		there, same = true, before == content
	}
	switch {
	case there && same:
		return Verdict{Skipped: true}
	case there:
		return refused("other_content", time.Time{})
	case d.CreatedAt.IsZero():
		if now.After(w.last) {
			w.last = now
		}
	case d.CreatedAt.Before(w.last):
		return refused("before_newest", w.last)
	case d.CreatedAt.After(now.Add(MaxAhead)):
		return refused("ahead", now)
	default:
		w.last = d.CreatedAt
	}
	if d.ID != "" {
		w.seen[key] = content
	}
	return Verdict{}
}

func digest(text string) [16]byte {
	sum := sha256.Sum256([]byte(text))
	return [16]byte(sum[:16])
}

// meet reads the workspaces of entries that are new to the trial.
func (t *Trial) meet(ctx context.Context, drafts []domain.Draft) error {
	var ids []string
	for i := range drafts {
		if w := drafts[i].WorkspaceID; t.workspaces[w] == nil {
			t.workspaces[w] = &tried{seen: map[[16]byte][16]byte{}}
			if !t.create {
				t.workspaces[w].refuses = UnknownWorkspace(w)
			}
			ids = append(ids, w)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var (
		id, move, to string
		last         *time.Time
	)
	err := pg.ForEach(ctx, t.log.pool, `
		SELECT w.workspace_id, nullif(h.created_at, '-infinity'), coalesce(w.move, ''), coalesce(w.moved_to, '')
		  FROM unnest($1::text[]) AS k (id) JOIN workspace w ON w.workspace_id = k.id JOIN log_head h ON h.workspace_id = w.workspace_id`,
		[]any{ids}, []any{&id, &last, &move, &to}, func() error {
			w := t.workspaces[id]
			w.refuses = nil
			if last != nil {
				w.last = last.UTC()
			}
			if move == moved {
				w.refuses = &MovedError{WorkspaceID: id, To: to, Away: true}
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// held finds the drafts whose id the log already has. It returns, by their index, whether the
// content is the same.
func (t *Trial) held(ctx context.Context, drafts []domain.Draft) (map[int]bool, error) {
	var workspaces, ids, types, opens, values []string
	for i := range drafts {
		d := &drafts[i]
		workspaces, ids, types = append(workspaces, d.WorkspaceID), append(ids, d.ID), append(types, d.Type)
		opens, values = append(opens, d.Open()), append(values, d.Value())
	}
	held := map[int]bool{}
	err := queryInOrder(ctx, t.log.pool, func(rows pgx.Rows) error {
		var (
			n    int
			same bool
		)
		_, err := pgx.ForEachRow(rows, []any{&n, &same}, func() error {
			held[n-1] = same
			return nil
		})
		return err //nolint:wrapcheck // wrapped by Append
	}, `SELECT k.n, e.type = k.type AND log_same(e.data::text, d.salt, k.workspace_id, k.id, k.open, nullif(k.value, ''))
	      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS k (workspace_id, id, type, open, value, n)
	     CROSS JOIN LATERAL (SELECT e.workspace_id, e.position, e.type, e.data FROM event_log e
	            WHERE e.workspace_id = k.workspace_id AND e.id BETWEEN k.id AND k.id ORDER BY e.id LIMIT 1) AS e
	      LEFT JOIN LATERAL (SELECT d.salt FROM log_detached d
	            WHERE d.workspace_id = e.workspace_id AND d.position BETWEEN e.position AND e.position ORDER BY d.position LIMIT 1) AS d ON true`,
		workspaces, ids, types, opens, values)
	return held, err
}
